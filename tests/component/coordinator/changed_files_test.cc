// A node says that S3 has another version of a file than the listing.
#include "coordinator/changed_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

constexpr std::uint32_t kTaskDone = 1;

class ChangedFilesTest : public ClusterTest {
 protected:
  ChangedFilesTest() {
    for (int i = 0; i < 20; ++i) store.Put("data/train/" + std::to_string(100 + i), 10, "old");
    store.Put("data/val/a", 10, "old");
    store.SetListFault([this](const ListRequest& request) -> std::optional<Error> {
      const std::scoped_lock lock(mutex_);
      listed_.push_back(request.prefix);
      return std::nullopt;
    });
    StartCoordinator();
    EXPECT_TRUE(node_.Register(address()));
  }

  void Report(const std::string& link, const std::string& key, const std::string& etag) {
    proto::ChangedObject& object = *node_.changed.Add();
    object.set_link(GetLink(link)->spec().id());
    object.set_key(key);
    object.set_etag(etag);
  }
  void Beat() {
    EXPECT_TRUE(node_.Heartbeat(address()));
    node_.changed.Clear();
  }
  /// The refreshes that have ended.
  std::vector<proto::TaskState> Refreshes() {
    const auto reply =
        admin.Ask<proto::ListTasksReply>(address(), Method::kListTasks, proto::ListTasksRequest());
    std::vector<proto::TaskState> ended;
    if (!reply) return ended;
    for (const proto::TaskState& task : reply->tasks()) {
      if (task.kind() == "refresh" && task.state() == kTaskDone) ended.push_back(task);
    }
    return ended;
  }
  proto::CheckTargetReply Check(const std::string& target) {
    proto::CheckTargetRequest request;
    request.mutable_target()->set_text(target);
    const auto reply = admin.Ask<proto::CheckTargetReply>(address(), Method::kCheckTarget, request);
    return reply ? *reply : proto::CheckTargetReply();
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (!condition()) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  std::vector<std::string> TakeListed() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(listed_, {});
  }

  FakeNode node_{"n1", secret};

 private:
  std::mutex mutex_;
  std::vector<std::string> listed_;
};

TEST_F(ChangedFilesTest, ARefreshableLinkIsListedAgainAtThatPlaceAlone) {
  MakeLink("data", "data/");
  store.Put("data/train/105", 12, "new");
  store.Put("data/val/a", 12, "new");
  (void)TakeListed();
  Report("data", "data/train/105", "old");
  Beat();
  ASSERT_TRUE(Eventually([&] { return Refreshes().size() == 1; }));
  const proto::TaskState task = Refreshes().front();
  EXPECT_EQ(task.target(), "data/train/105");
  EXPECT_EQ(task.changed(), 1U);
  EXPECT_EQ(task.added() + task.removed(), 0U) << "a difference of one row";
  for (const std::string& prefix : TakeListed())
    EXPECT_TRUE(prefix.starts_with("data/train")) << prefix;
  EXPECT_EQ(GetLink("data")->generation().generation(), 2U);
  // A node behind the times says it once more: nothing is asked.
  Report("data", "data/train/105", "old");
  Beat();
  Beat();
  EXPECT_TRUE(TakeListed().empty());
  EXPECT_EQ(Check("data").changed_objects(), 0U);
}

TEST_F(ChangedFilesTest, WhatWasDeletedGoesFromTheLink) {
  MakeLink("data", "data/");
  store.Erase("data/val/a");
  Report("data", "data/val/a", "old");
  Beat();
  ASSERT_TRUE(Eventually([&] { return Refreshes().size() == 1; }));
  EXPECT_EQ(Refreshes().front().removed(), 1U);
}

TEST_F(ChangedFilesTest, ManyOfThemAreListedTogether) {
  MakeLink("data", "data/");
  for (int i = 0; i < 20; ++i) {
    const std::string key = "data/train/" + std::to_string(100 + i);
    store.Put(key, 12, "new");
    Report("data", key, "old");
  }
  Beat();
  ASSERT_TRUE(Eventually([&] { return Refreshes().size() == 1; }));
  EXPECT_EQ(Refreshes().front().changed(), 20U);
}

TEST_F(ChangedFilesTest, SomeOfThemBecomeOneGenerationAndNothingElseIsListed) {
  MakeLink("data", "data/");
  const std::vector<std::string> keys = {"data/train/103", "data/train/117", "data/val/a"};
  store.Put(keys[0], 12, "new");
  store.Erase(keys[1]);
  store.Put(keys[2], 13, "new");
  (void)TakeListed();
  for (const std::string& key : keys) Report("data", key, "old");
  Beat();
  ASSERT_TRUE(Eventually([&] { return !Refreshes().empty(); }));
  const proto::TaskState task = Refreshes().front();
  EXPECT_EQ(task.target(), "data/train/103 and 2 more");
  EXPECT_EQ(task.changed(), 2U);
  EXPECT_EQ(task.removed(), 1U);
  EXPECT_EQ(task.added(), 0U);
  EXPECT_EQ(GetLink("data")->generation().generation(), 2U) << "all in one";
  EXPECT_EQ(GetLink("data")->generation().objects(), 20U);
  for (const std::string& prefix : TakeListed()) {
    const bool is_folder = prefix == "data/train/" || prefix == "data/val/";  // their markers
    const bool is_one =
        std::ranges::any_of(keys, [&](const std::string& key) { return prefix.starts_with(key); });
    EXPECT_TRUE(is_folder || is_one) << prefix;
  }
  Beat();
  EXPECT_EQ(Check("data").changed_objects(), 0U);
}

TEST_F(ChangedFilesTest, OneThatHasBecomeAFolderFollowsByItself) {
  MakeLink("data", "data/");
  store.Put("data/train/103", 12, "new");
  store.Erase("data/val/a");
  store.Put("data/val/a/inside", 7, "new");
  Report("data", "data/train/103", "old");
  Report("data", "data/val/a", "old");
  Beat();
  ASSERT_TRUE(Eventually([&] { return Refreshes().size() == 2; }));
  EXPECT_EQ(GetLink("data")->generation().generation(), 3U);
  EXPECT_EQ(GetLink("data")->generation().objects(), 21U);
  EXPECT_EQ(Check("data").changed_objects(), 0U);
}

TEST_F(ChangedFilesTest, AListingThatShowsNothingNewIsNotRepeatedForEver) {
  MakeLink("data", "data/");
  Report("data", "data/val/a", "old");  // S3 answers GETs otherwise than LISTs
  Beat();
  ASSERT_TRUE(Eventually([&] { return Check("data").changed_objects() == 1; }));
  EXPECT_EQ(Refreshes().size(), 1U);
  EXPECT_EQ(GetLink("data")->generation().generation(), 1U);
}

TEST_F(ChangedFilesTest, OfAnImmutableLinkTheyAreNamedByCheckAlsoAfterARestart) {
  proto::LinkRequest request = LinkRequestFor("frozen", "data/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kImmutable));
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked);
  WaitForTask(linked->task_id());
  (void)TakeListed();
  Report("frozen", "data/val/a", "old");
  Beat();
  ASSERT_TRUE(Eventually([&] { return Check("frozen").changed_objects() == 1; }));
  EXPECT_TRUE(TakeListed().empty()) << "it is never listed again";
  StopCoordinator();
  StartCoordinator();
  EXPECT_TRUE(node_.Register(address()));
  const proto::CheckTargetReply reply = Check("frozen");
  ASSERT_EQ(reply.changed_size(), 1);
  EXPECT_EQ(reply.changed(0).path(), "val/a");
  EXPECT_GT(reply.changed(0).since_unix_s(), 0);
  EXPECT_EQ(Check("frozen/train").changed_objects(), 0U);
  EXPECT_EQ(Check("frozen/val").changed_objects(), 1U);
}

TEST(CommonFolder, IsTheDeepestThatHoldsThemAll) {
  EXPECT_EQ(CommonFolder({"a/b/c"}), "a/b");
  EXPECT_EQ(CommonFolder({"a/b/c", "a/b/d"}), "a/b");
  EXPECT_EQ(CommonFolder({"a/b/c", "a/bb/d"}), "a");
  EXPECT_EQ(CommonFolder({"a/b", "a/b/c"}), "a");
  EXPECT_EQ(CommonFolder({"a/b", "c"}), "");
  EXPECT_EQ(CommonFolder({}), "");
}

}  // namespace
}  // namespace forebay
