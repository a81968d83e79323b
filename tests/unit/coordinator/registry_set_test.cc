#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/link_registry.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

proto::GenerationInfo Generation(std::uint64_t number) {
  proto::GenerationInfo info;
  info.set_generation(number);
  return info;
}

LinkSpec Part(const std::string& part, const std::string& bucket) {
  LinkSpec spec = TestLink("clip." + part, bucket, part + "/");
  spec.set = "clip";
  return spec;
}

class RegistrySet : public testing::Test {
 protected:
  std::vector<LinkRegistry::Added> AddClip() {
    auto added = links.AddSet({Part("images", "a"), Part("labels", "b")});
    EXPECT_TRUE(added) << added.error().message;
    return added ? *added : std::vector<LinkRegistry::Added>();
  }
  template <typename T>
  static std::string Said(const Result<T>& result) {
    return result ? "" : result.error().message;
  }
  std::uint32_t PhaseOf(const std::string& task) const { return tasks.Find(task)->state(); }

  MemoryStateStore store;
  const std::uint64_t fence = *store.Claim();
  TaskBook tasks;
  LinkRegistry links{store, fence, tasks};
};

TEST_F(RegistrySet, IsAddedWholeAndIsThereAfterARestart) {
  const std::uint64_t before = links.version();
  const auto added = AddClip();
  ASSERT_EQ(added.size(), 2u);
  EXPECT_TRUE(added[0].is_new && added[1].is_new);
  EXPECT_EQ(links.version(), before + 1) << "one change";
  EXPECT_EQ(links.PartsOf("clip").size(), 2u);

  TaskBook next_tasks;
  ASSERT_TRUE(next_tasks.Load(store));
  LinkRegistry next(store, fence, next_tasks);
  ASSERT_TRUE(next.Load());
  const std::vector<Link> parts = next.PartsOf("clip");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].spec, added[0].link.spec);
  EXPECT_EQ(parts[1].spec, added[1].link.spec);
  EXPECT_TRUE(next_tasks.Find(parts[1].task_id));
}

TEST_F(RegistrySet, OfOneThatCannotBeStoredNothingShows) {
  store.fail_writes = true;
  EXPECT_FALSE(links.AddSet({Part("images", "a"), Part("labels", "b")}));
  EXPECT_TRUE(links.All().empty());
  EXPECT_TRUE(tasks.All().empty());
}

TEST_F(RegistrySet, TheSameAgainAnswersWhatStillRuns) {
  const auto first = AddClip();
  ASSERT_TRUE(links.Publish(first[0].link.spec.id, Generation(1), {}));
  const auto again = AddClip();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_FALSE(again[0].is_new || again[1].is_new);
  EXPECT_EQ(again[0].link.task_id, "");
  EXPECT_EQ(again[1].link.task_id, first[1].link.task_id);
}

TEST_F(RegistrySet, WithOtherPartsOrOptionsIsRefused) {
  AddClip();
  const auto other = links.AddSet({Part("images", "a"), Part("masks", "b")});
  EXPECT_NE(Said(other).find("it has no part 'masks'"), std::string::npos);
  const auto moved = links.AddSet({Part("images", "a"), Part("labels", "c")});
  EXPECT_NE(Said(moved).find("source s3://b/labels/, not s3://c/labels/"), std::string::npos);
  const auto more = links.AddSet({Part("images", "a")});
  EXPECT_NE(Said(more).find("exists with 2 parts, not 1"), std::string::npos);
  EXPECT_EQ(links.All().size(), 2u);
}

TEST_F(RegistrySet, ANameIsThatOfALinkOrOfASet) {
  ASSERT_TRUE(links.Add(TestLink("clip", "bucket", "p/")));
  EXPECT_EQ(Said(links.AddSet({Part("images", "a"), Part("labels", "b")})),
            "'clip' is a link: unlink it first, or give the set another name with --as");
  ASSERT_TRUE(links.Remove("clip"));
  ASSERT_TRUE(links.Add(TestLink("clip.labels", "bucket", "p/")));
  EXPECT_NE(Said(links.AddSet({Part("images", "a"), Part("labels", "b")}))
                .find("'clip.labels' is to be a part of the set 'clip', and is the name of a link"),
            std::string::npos);
  EXPECT_EQ(links.All().size(), 1u);
  ASSERT_TRUE(links.Remove("clip.labels"));
  AddClip();
  EXPECT_EQ(Said(links.Add(TestLink("clip", "bucket", "p/"))),
            "'clip' is a set of 2 links: unlink it first, or give this one another name with --as");
  EXPECT_NE(Said(links.Add(TestLink("clip.images", "a", "images/"))).find("set 'clip', not ''"),
            std::string::npos);
}

TEST_F(RegistrySet, IsRemovedWholeAndNoPartOfItAlone) {
  const auto added = AddClip();
  EXPECT_EQ(Said(links.Remove("clip.images")),
            "'clip.images' is a part of the set 'clip', which is removed as a whole: `forebay "
            "unlink clip`; nothing was changed");
  EXPECT_EQ(links.All().size(), 2u);
  const std::uint64_t before = links.version();
  const auto removed = links.Remove("clip");
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->size(), 2u);
  EXPECT_TRUE(links.All().empty());
  EXPECT_EQ(links.version(), before + 1) << "one change";
  for (const auto& each : added)
    EXPECT_EQ(PhaseOf(each.link.task_id), static_cast<std::uint32_t>(TaskPhase::kCancelled));
  EXPECT_EQ(links.Remove("clip").error().code, Code::kNotFound);
}

TEST_F(RegistrySet, APartThatCannotBeListedTakesTheSetWithIt) {
  const auto added = AddClip();
  ASSERT_TRUE(links.Publish(added[0].link.spec.id, Generation(1), {}));
  const auto gone = links.FailListing(added[1].link.spec.id, "denied");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->size(), 2u);
  EXPECT_TRUE(links.All().empty());
  EXPECT_EQ(tasks.Find(added[1].link.task_id)->error(), "denied");
}

TEST_F(RegistrySet, ThatIsListedStaysWhenALaterListingFails) {
  const auto added = AddClip();
  for (const auto& each : added) ASSERT_TRUE(links.Publish(each.link.spec.id, Generation(1), {}));
  const Uuid id = added[0].link.spec.id;
  ASSERT_TRUE(links.BeginRefresh(id, "", RefreshCause::kAsked));
  const auto gone = links.FailListing(id, "denied");
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->empty());
  EXPECT_EQ(links.FindById(id)->refresh_error, "denied");
  EXPECT_EQ(links.All().size(), 2u);
}

TEST_F(RegistrySet, StaysWhenALostListingOfAPartIsRefused) {
  const auto added = AddClip();
  for (const auto& each : added) ASSERT_TRUE(links.Publish(each.link.spec.id, Generation(1), {}));
  const Uuid id = added[0].link.spec.id;
  ASSERT_TRUE(links.Relist(id));
  const std::string task = links.FindById(id)->task_id;
  const auto gone = links.FailListing(id, "denied");
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->empty());
  EXPECT_EQ(links.All().size(), 2u);
  EXPECT_TRUE(links.FindById(id)->HasLostGeneration());
  EXPECT_EQ(links.FindById(id)->refresh_error, "denied");
  EXPECT_EQ(links.FindById(id)->task_id, "");
  EXPECT_EQ(tasks.Find(task)->error(), "denied");
}

TEST_F(RegistrySet, IsNoLinkWhereOneIsMeant) {
  AddClip();
  EXPECT_EQ(Said(links.Find("clip")),
            "'clip' is a set, and this is about one link: name one of clip.images, clip.labels");
  EXPECT_TRUE(links.Find("clip.images"));
  EXPECT_NE(Said(links.Find("cl1p")).find("the nearest is 'clip'"), std::string::npos);
}

}  // namespace
}  // namespace forebay
