#include "coordinator/link_registry.h"

#include <gtest/gtest.h>

#include "coordinator/frozen_links.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

proto::GenerationInfo Generation(std::uint64_t number) {
  proto::GenerationInfo info;
  info.set_generation(number);
  info.set_objects(number * 100);
  return info;
}

class LinkRegistryTest : public testing::Test {
 protected:
  MemoryStateStore store;
  const std::uint64_t fence = *store.Claim();
  TaskBook tasks;
  LinkRegistry links{store, fence, tasks};
};

TEST_F(LinkRegistryTest, TheSameLinkAgainAnswersItsTaskAndThenNone) {
  const LinkSpec spec = TestLink("a", "bucket", "p/");
  const auto first = links.Add(spec);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->is_new);
  LinkSpec again = spec;
  again.id = Uuid::Random();
  const auto second = links.Add(again);
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(second->link.task_id, first->link.task_id);
  EXPECT_EQ(second->link.spec.id, spec.id);
  ASSERT_TRUE(links.Publish(spec.id, Generation(1), {}).has_value());
  EXPECT_EQ(links.Add(again)->link.task_id, "");
}

TEST_F(LinkRegistryTest, TheSameNameWithOtherOptionsShowsTheDifference) {
  LinkSpec spec = TestLink("a", "bucket", "p/");
  ASSERT_TRUE(links.Add(spec).has_value());
  spec.block_bytes = 1 << 20;
  spec.origin.prefix = "q/";
  const auto other = links.Add(spec);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::kInvalid);
  EXPECT_NE(other.error().message.find("block size 4194304, not 1048576"), std::string::npos);
  EXPECT_NE(other.error().message.find("source s3://bucket/p/, not s3://bucket/q/"),
            std::string::npos);
}

TEST_F(LinkRegistryTest, LinksShareBlocksOnlyWhereS3AllowsThemTheSame) {
  LinkSpec one = TestLink("a", "bucket", "p/");
  one.sharing_domain = "team";
  one.origin.profile = "red";
  ASSERT_TRUE(links.Add(one).has_value());
  LinkSpec two = TestLink("b", "bucket", "p/");
  two.sharing_domain = "team";
  const auto refused = links.Add(two);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("link 'a' of sharing domain 'team'"), std::string::npos);
  EXPECT_EQ(links.All().size(), 1u);
  LinkSpec part = two;
  part.name = "set-x";
  part.set = "set";
  EXPECT_FALSE(links.AddSet({part}).has_value());
  two.origin.profile = "red";
  EXPECT_TRUE(links.Add(two).has_value());
  two.sharing_domain = "other";
  const auto other = links.Add(two);
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("sharing domain 'team', not 'other'"), std::string::npos);
}

TEST_F(LinkRegistryTest, APublishedGenerationEndsItsTaskAndKeepsTheOneBefore) {
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  const Uuid id = added->link.spec.id;
  ASSERT_TRUE(links.Publish(id, Generation(1), {}).has_value());
  EXPECT_EQ(tasks.Find(added->link.task_id)->state(), static_cast<std::uint32_t>(TaskPhase::kDone));
  ASSERT_TRUE(links.Publish(id, Generation(2), {}).has_value());
  const Link link = *links.FindById(id);
  EXPECT_EQ(link.phase(), LinkPhase::kReady);
  EXPECT_EQ(link.generation->generation(), 2u);
  EXPECT_EQ(link.previous->generation(), 1u);
  EXPECT_EQ(link.next_generation, 3u);
}

TEST_F(LinkRegistryTest, AFailedFirstListingRemovesTheLinkAndKeepsTheReason) {
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  ASSERT_TRUE(links.FailListing(added->link.spec.id, "denied").has_value());
  EXPECT_TRUE(links.All().empty());
  EXPECT_EQ(tasks.Find(added->link.task_id)->error(), "denied");
}

TEST_F(LinkRegistryTest, NothingOfARemovedLinkIsPublished) {
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  ASSERT_TRUE(links.Remove("a").has_value());
  EXPECT_EQ(links.Publish(added->link.spec.id, Generation(1), {}).error().code, Code::kNotFound);
  EXPECT_EQ(tasks.Find(added->link.task_id)->state(),
            static_cast<std::uint32_t>(TaskPhase::kCancelled));
  EXPECT_EQ(links.Remove("a").error().code, Code::kNotFound);
}

TEST_F(LinkRegistryTest, EveryChangeRaisesTheVersionAlsoOverARestart) {
  const std::uint64_t empty = links.version();
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  const std::uint64_t listing = links.version();
  EXPECT_GT(listing, empty);
  ASSERT_TRUE(links.Publish(added->link.spec.id, Generation(1), {}).has_value());
  EXPECT_GT(links.version(), listing);

  TaskBook next_tasks;
  LinkRegistry next(store, fence, next_tasks);
  ASSERT_TRUE(next.Load().has_value());
  EXPECT_EQ(next.version(), links.version());
  ASSERT_EQ(next.All().size(), 1u);
  EXPECT_EQ(next.All()[0].spec, added->link.spec);
  EXPECT_EQ(next.All()[0].generation->objects(), 100u);
}

TEST_F(LinkRegistryTest, APartialRefreshGoesOnAfterARestartAndAnOlderReleaseListsAllInstead) {
  const LinkSpec spec = TestLink("a", "bucket", "p/");
  ASSERT_TRUE(links.Add(spec).has_value());
  const std::string key = "link/" + spec.id.ToString();
  std::uint64_t number = 0;
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{}, {"one"}, {"x", "y/z"}, {"a", "b", "c"}}) {
    ASSERT_TRUE(links.Publish(spec.id, Generation(++number), {}).has_value());
    const std::string joined = JoinPaths(paths);
    ASSERT_TRUE(links.BeginRefresh(spec.id, joined, RefreshCause::kAsked).has_value());
    LinkRegistry restarted(store, fence, tasks);
    ASSERT_TRUE(restarted.Load().has_value());
    EXPECT_EQ(SplitPaths(restarted.FindById(spec.id)->refresh_path), paths);
    proto::LinkRecord record;
    ASSERT_TRUE(record.ParseFromString(**store.Get(key)));
    record.clear_refresh_paths();
    StateBatch batch;
    batch.Put(key, record.SerializeAsString());
    ASSERT_TRUE(store.Write(batch, fence).has_value());
    LinkRegistry older(store, fence, tasks);
    ASSERT_TRUE(older.Load().has_value());
    EXPECT_EQ(older.FindById(spec.id)->refresh_path, paths.size() == 1 ? joined : "");
  }
}

TEST_F(LinkRegistryTest, WhatCannotBeStoredDoesNotShow) {
  store.fail_writes = true;
  EXPECT_FALSE(links.Add(TestLink("a", "bucket", "p/")).has_value());
  EXPECT_TRUE(links.All().empty());
  store.fail_writes = false;
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  ASSERT_TRUE(added.has_value());
  store.fail_writes = true;
  EXPECT_FALSE(links.Publish(added->link.spec.id, Generation(1), {}).has_value());
  EXPECT_EQ(links.All()[0].phase(), LinkPhase::kListing);
  EXPECT_FALSE(links.Remove("a").has_value());
  EXPECT_EQ(links.All().size(), 1u);
}

TEST_F(LinkRegistryTest, ALostListingIsMadeAgainUnderTheNextNumber) {
  const auto added = links.Add(TestLink("a", "bucket", "p/"));
  const Uuid id = added->link.spec.id;
  ASSERT_TRUE(links.Publish(id, Generation(1), {}).has_value());
  ASSERT_TRUE(links.Relist(id).has_value());
  const Link link = *links.FindById(id);
  EXPECT_EQ(link.phase(), LinkPhase::kListing);
  EXPECT_EQ(link.next_generation, 2u);
  EXPECT_NE(link.task_id, "");
}

TEST_F(LinkRegistryTest, ARefreshWhoseGenerationIsLostEndsWhereAllIsListedAgain) {
  const Uuid id = links.Add(TestLink("a", "bucket", "p/"))->link.spec.id;
  ASSERT_TRUE(links.Publish(id, Generation(1), {}).has_value());
  const std::string task = links.BeginRefresh(id, "", RefreshCause::kAsked)->link.task_id;
  store.fail_writes = true;
  EXPECT_FALSE(links.Relist(id).has_value());
  EXPECT_EQ(tasks.Find(task)->ended_unix_s(), 0) << "not before it is stored";
  store.fail_writes = false;
  ASSERT_TRUE(links.Relist(id).has_value());
  const std::string again = links.FindById(id)->task_id;
  EXPECT_NE(again, task);
  TaskBook stored;
  ASSERT_TRUE(stored.Load(store).has_value());
  for (const TaskBook* const book : {&tasks, &stored}) {
    EXPECT_EQ(book->Find(task)->state(), static_cast<std::uint32_t>(TaskPhase::kCancelled));
    EXPECT_NE(book->Find(task)->error().find("was lost: task " + again), std::string::npos);
    EXPECT_EQ(book->Find(again)->state(), static_cast<std::uint32_t>(TaskPhase::kRunning));
  }
}

TEST_F(LinkRegistryTest, AnImmutableLinkKeepsWhatItShowsUntilTheSameIsPublished) {
  LinkSpec spec = TestLink("a", "bucket", "p/");
  spec.refresh = RefreshPolicy::kImmutable;
  const Uuid id = links.Add(spec)->link.spec.id;
  ASSERT_TRUE(links.Publish(id, Generation(1), {}).has_value());
  EXPECT_FALSE(IsListingLost(*links.FindById(id)));
  ASSERT_TRUE(links.Relist(id).has_value());
  EXPECT_TRUE(IsListingLost(*links.FindById(id)));
  EXPECT_EQ(links.FindById(id)->generation->generation(), 1U);
  ASSERT_TRUE(links.FailListing(id, "S3 refuses").has_value());
  EXPECT_TRUE(IsListingLost(*links.FindById(id)));

  TaskBook next_tasks;
  LinkRegistry next(store, fence, next_tasks);
  ASSERT_TRUE(next.Load().has_value());
  EXPECT_TRUE(IsListingLost(*next.FindById(id))) << "over a restart";

  ASSERT_TRUE(links.Publish(id, Generation(2), {}).has_value());
  EXPECT_FALSE(IsListingLost(*links.FindById(id)));
  EXPECT_FALSE(links.FindById(id)->previous) << "its file is lost";
}

TEST_F(LinkRegistryTest, OfAnImmutableLinkOnlyTheSameDigestMayBePublished) {
  LinkSpec spec = TestLink("a", "bucket", "p/");
  spec.refresh = RefreshPolicy::kImmutable;
  const Uuid id = links.Add(spec)->link.spec.id;
  proto::GenerationInfo first = Generation(1);
  first.set_listing_digest("d1");
  EXPECT_TRUE(CheckFrozen(*links.FindById(id), first).has_value()) << "the first one";
  ASSERT_TRUE(links.Publish(id, first, {}).has_value());
  ASSERT_TRUE(links.Relist(id).has_value());
  proto::GenerationInfo again = Generation(2);
  again.set_listing_digest("d1");
  EXPECT_TRUE(CheckFrozen(*links.FindById(id), again).has_value());
  again.set_listing_digest("d2");
  EXPECT_EQ(CheckFrozen(*links.FindById(id), again).error().code, Code::kStale);

  Link unknown = *links.FindById(id);
  unknown.generation->clear_listing_digest();
  again.clear_listing_digest();
  EXPECT_FALSE(CheckFrozen(unknown, again).has_value()) << "nobody can tell";
  unknown.spec.refresh = RefreshPolicy::kOnDemand;
  EXPECT_TRUE(CheckFrozen(unknown, again).has_value());
}

}  // namespace
}  // namespace forebay
