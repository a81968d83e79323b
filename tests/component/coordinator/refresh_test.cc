// A link is listed again, whole or in part, by itself or when asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

constexpr std::uint32_t kTaskDone = 1;
constexpr std::uint32_t kTaskFailed = 2;
constexpr std::uint32_t kTaskCancelled = 3;

class RefreshTest : public ClusterTest {
 protected:
  RefreshTest() {
    for (int i = 0; i < 20; ++i) store.Put("data/train/" + std::to_string(100 + i), 10);
    store.Put("data/val/a", 10);
    store.Put("data/val/deep/b", 10);
    store.SetListFault([this](const ListRequest& request) -> std::optional<Error> {
      const std::scoped_lock lock(mutex_);
      listed_.push_back(request.prefix);
      return fault_;
    });
    StartCoordinator();
    MakeLink("data", "data/");
  }

  Result<proto::RefreshReply> Start(const std::string& target) {
    proto::RefreshRequest request;
    request.mutable_target()->set_text(target);
    return admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
  }

  /// Refreshes and waits for the end.
  proto::TaskState Refresh(const std::string& target) {
    const Result<proto::RefreshReply> reply = Start(target);
    if (!reply) {
      ADD_FAILURE() << reply.error().message;
      return {};
    }
    EXPECT_TRUE(reply->started());
    return WaitForTask(reply->task_id());
  }

  std::vector<std::string> NamesIn(const std::string& target) {
    proto::ListTargetRequest request;
    request.mutable_target()->set_text(target);
    const auto reply = admin.Ask<proto::ListTargetReply>(address(), Method::kListTarget, request);
    std::vector<std::string> names;
    if (!reply) return names;
    for (const proto::ListedEntry& entry : reply->entries()) names.push_back(entry.name());
    return names;
  }

  Result<proto::ChangeTaskReply> Cancel(const std::string& id) {
    proto::ChangeTaskRequest request;
    request.set_id(id);
    return admin.Ask<proto::ChangeTaskReply>(address(), Method::kCancelTask, request);
  }

  /// Oldest first.
  std::vector<proto::TaskState> Tasks() {
    const auto reply =
        admin.Ask<proto::ListTasksReply>(address(), Method::kListTasks, proto::ListTasksRequest());
    if (!reply) return {};
    return {reply->tasks().begin(), reply->tasks().end()};
  }

  void Fault(std::optional<Error> fault) {
    const std::scoped_lock lock(mutex_);
    fault_ = std::move(fault);
  }
  std::vector<std::string> TakeListed() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(listed_, {});
  }
  std::uint64_t Generation() { return GetLink("data")->generation().generation(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> listed_;
  std::optional<Error> fault_;
};

TEST_F(RefreshTest, CountsWhatIsNewGoneAndChangedAndShowsIt) {
  store.Put("data/train/200", 10);
  store.Put("data/train/201", 10);
  store.Put("data/train/100", 11);
  for (int i = 1; i <= 3; ++i) store.Erase("data/train/" + std::to_string(100 + i));
  const proto::TaskState task = Refresh("data");
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.kind(), "refresh");
  EXPECT_EQ(task.added(), 2U);
  EXPECT_EQ(task.removed(), 3U);
  EXPECT_EQ(task.changed(), 1U);
  EXPECT_EQ(Generation(), 2U);
  EXPECT_EQ(NamesIn("data/train").size(), 19U);
}

TEST_F(RefreshTest, NothingNewKeepsTheGeneration) {
  const proto::TaskState task = Refresh("data");
  EXPECT_EQ(task.state(), kTaskDone);
  EXPECT_EQ(task.added() + task.removed() + task.changed(), 0U);
  EXPECT_EQ(Generation(), 1U);
  store.Put("data/new", 1);
  EXPECT_EQ(Refresh("data").added(), 1U);
  EXPECT_EQ(Generation(), 2U);
}

TEST_F(RefreshTest, AListingThatFailedIsAnAlertUntilOneSucceedsOrTheLinkIsGone) {
  const auto alerts = [this] {
    const auto stats =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    std::vector<proto::Alert> all;
    if (stats) all.assign(stats->alerts().begin(), stats->alerts().end());
    return all;
  };
  const Error denied{Code::kDenied, "the keys are old"};
  Fault(denied);
  const proto::TaskState failed = Refresh("data/train");
  EXPECT_EQ(failed.state(), kTaskFailed);
  ASSERT_EQ(alerts().size(), 1U);
  EXPECT_EQ(alerts()[0].name(), "link_failed");
  EXPECT_EQ(alerts()[0].since_unix_s(), failed.ended_unix_s());
  EXPECT_NE(alerts()[0].message().find("link 'data' could not be listed again"), std::string::npos);
  EXPECT_NE(alerts()[0].action().find("`forebay refresh data`"), std::string::npos);
  Fault(std::nullopt);
  EXPECT_EQ(Refresh("data").state(), kTaskDone);
  EXPECT_TRUE(alerts().empty());
  Fault(denied);
  EXPECT_EQ(Refresh("data").state(), kTaskFailed);
  EXPECT_EQ(alerts().size(), 1U);
  proto::UnlinkRequest unlink;
  unlink.set_name("data");
  ASSERT_TRUE(admin.Call(address(), Method::kUnlink, unlink).has_value());
  EXPECT_TRUE(alerts().empty());
}

TEST_F(RefreshTest, EachOfManyInARowEndsAlsoOneThatIsAskedForWhileTheOneBeforeTidiesUp) {
  for (int i = 0; i < 60; ++i) ASSERT_EQ(Refresh("data").state(), kTaskDone) << i;
  EXPECT_EQ(Generation(), 1U);
}

TEST_F(RefreshTest, AFolderIsListedAloneAndTheRestStays) {
  store.Put("data/val/c", 10);
  store.Erase("data/val/a");
  store.Put("data/train/200", 10);
  (void)TakeListed();
  const proto::TaskState task = Refresh("data/val");
  EXPECT_EQ(task.added(), 1U);
  EXPECT_EQ(task.removed(), 1U);
  const std::vector<std::string> listed = TakeListed();
  ASSERT_FALSE(listed.empty());
  for (const std::string& prefix : listed) EXPECT_TRUE(prefix.starts_with("data/val")) << prefix;
  EXPECT_EQ(NamesIn("data/val"), (std::vector<std::string>{"c", "deep"}));
  EXPECT_EQ(NamesIn("data/train").size(), 20U) << "its new file was not asked for";
  EXPECT_EQ(Refresh("data").added(), 1U);
}

TEST_F(RefreshTest, AKeyThatIsNewInS3CanBeAskedForByName) {
  store.Put("data/val/deep/c", 10);
  store.Put("data/val/deep/cc", 10);
  EXPECT_EQ(Refresh("s3://bucket/data/val/deep/c").added(), 1U);
  EXPECT_EQ(NamesIn("data/val/deep"), (std::vector<std::string>{"b", "c"}));
}

TEST_F(RefreshTest, EmptyPagesOfS3DropNoFileThatIsAskedForByName) {
  store.ListEmptyPages(1);
  MakeLink("empty", "data/");
  ASSERT_TRUE(GetLink("empty").has_value()) << "`link` looks behind an empty page, too";
  EXPECT_EQ(GetLink("empty")->generation().objects(), GetLink("data")->generation().objects());
  const std::uint64_t before = GetLink("data")->generation().objects();
  EXPECT_EQ(Refresh("data/val/deep/b").removed(), 0U);
  EXPECT_EQ(GetLink("data")->generation().objects(), before);
}

TEST_F(RefreshTest, AFolderThatEndsTakesItsParentsAlong) {
  store.Erase("data/val/deep/b");
  store.Erase("data/val/a");
  EXPECT_EQ(Refresh("data/val/deep").removed(), 1U);
  EXPECT_EQ(NamesIn("data/val"), std::vector<std::string>{"a"}) << "only what was asked for";
  EXPECT_EQ(Refresh("data/val").removed(), 1U);
  EXPECT_EQ(NamesIn("data"), std::vector<std::string>{"train"});
}

TEST_F(RefreshTest, AFailureKeepsWhatIsThereAndIsSaid) {
  store.Put("data/new", 1);
  Fault(Error{Code::kDenied, "S3 refuses"});
  const proto::TaskState failed = Refresh("data");
  EXPECT_EQ(failed.state(), kTaskFailed);
  EXPECT_EQ(failed.error(), "S3 refuses");
  EXPECT_EQ(Generation(), 1U);
  EXPECT_EQ(GetLink("data")->error(), "S3 refuses");
  Fault(std::nullopt);
  EXPECT_EQ(Refresh("data").added(), 1U);
  EXPECT_EQ(GetLink("data")->error(), "");
}

TEST_F(RefreshTest, AnImmutableLinkIsNeverListedAgain) {
  proto::LinkRequest request = LinkRequestFor("frozen", "data/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kImmutable));
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked.has_value());
  WaitForTask(linked->task_id());
  const auto refused = Start("frozen");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("immutable"), std::string::npos);
}

TEST_F(RefreshTest, ASecondOneWaitsForTheFirstAndOneThatAStopInterruptsGoesOn) {
  store.Put("data/val/new", 1);
  store.HangAfter(1);
  const auto first = Start("data/val");
  ASSERT_TRUE(first.has_value() && first->started());
  ASSERT_TRUE(store.WaitUntilHanging());
  const auto second = Start("data");
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->started());
  EXPECT_EQ(second->task_id(), first->task_id());
  StopCoordinator();
  StartCoordinator();
  const proto::TaskState task = WaitForTask(first->task_id());
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.added(), 1U);
  EXPECT_EQ(NamesIn("data/val"), (std::vector<std::string>{"a", "deep", "new"}));
}

TEST_F(RefreshTest, ACancelledOneStopsAtOnceAndLeavesTheGeneration) {
  store.Put("data/val/new", 1);
  for (const char* target : {"data", "data/val"}) {
    store.HangAfter(target == std::string("data") ? 0 : 1);
    const auto started = Start(target);
    ASSERT_TRUE(started.has_value() && started->started());
    ASSERT_TRUE(store.WaitUntilHanging());
    // S3 answers nothing all the while.
    const auto cancelled = Cancel(started->task_id());
    ASSERT_TRUE(cancelled.has_value()) << cancelled.error().message;
    EXPECT_TRUE(cancelled->changed());
    EXPECT_EQ(cancelled->task().state(), kTaskCancelled);
    EXPECT_EQ(cancelled->task().error(), "it was cancelled");
    EXPECT_EQ(Generation(), 1U);
    EXPECT_EQ(GetLink("data")->error(), "") << "nothing failed";
    const auto again = Cancel(started->task_id());
    ASSERT_TRUE(again.has_value());
    EXPECT_FALSE(again->changed());
    store.Interrupt();
  }
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(Generation(), 1U) << "it does not go on";
  EXPECT_EQ(Refresh("data").added(), 1U);
}

TEST_F(RefreshTest, ALostListingThatIsMadeAgainCannotBeCancelled) {
  StopCoordinator();
  std::filesystem::remove_all(dir / "state" / "snapshots");
  store.HangAfter(0);
  StartCoordinator();
  ASSERT_TRUE(store.WaitUntilHanging());
  const std::string task = Tasks().back().id();
  const auto refused = Cancel(task);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("forebay unlink data"), std::string::npos);
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(WaitForTask(task).state(), kTaskDone);
}

TEST_F(RefreshTest, OneThatAStopInterruptsEndsWhereTheGenerationIsLostMeanwhile) {
  store.Put("data/val/new", 1);
  store.HangAfter(0);
  const auto begun = Start("data/val");
  ASSERT_TRUE(begun.has_value() && begun->started());
  ASSERT_TRUE(store.WaitUntilHanging());
  StopCoordinator();
  std::filesystem::remove_all(dir / "state" / "snapshots");
  StartCoordinator();
  const proto::TaskState task = WaitForTask(begun->task_id());
  EXPECT_EQ(task.state(), kTaskCancelled);
  EXPECT_NE(task.error().find("was lost"), std::string::npos) << task.error();
  EXPECT_EQ(WaitForTask(Tasks().back().id()).state(), kTaskDone);
  EXPECT_EQ(NamesIn("data/val"), (std::vector<std::string>{"a", "deep", "new"}));
}

TEST_F(RefreshTest, ALinkThatIsMadeAgainIsListedWhereItsListingIsLostAndFailed) {
  proto::LinkRequest set;
  set.set_name("set");
  set.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  for (const std::string part : {"train", "val"}) {
    proto::LinkPart& wanted = *set.add_parts();
    wanted.set_name(part);
    wanted.set_bucket("bucket");
    wanted.set_prefix("data/" + part + "/");
  }
  const auto ask = [this](const proto::LinkRequest& request) {
    const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    EXPECT_TRUE(linked.has_value()) << linked.error().message;
    return linked ? linked->task_id() : "";
  };
  ASSERT_EQ(WaitForTask(ask(set)).state(), kTaskDone);
  EXPECT_EQ(ask(set), "") << "it is there";
  StopCoordinator();
  std::filesystem::remove_all(dir / "state" / "snapshots");
  Fault(Error{Code::kDenied, "S3 refuses"});
  StartCoordinator();
  for (const proto::TaskState& task : Tasks()) WaitForTask(task.id());
  Fault(std::nullopt);
  for (const proto::LinkRequest& request : {LinkRequestFor("data", "data/"), set}) {
    const std::string task = ask(request);
    ASSERT_NE(task, "") << request.name();
    EXPECT_EQ(WaitForTask(task).state(), kTaskDone) << request.name();
    EXPECT_EQ(ask(request), "") << "it is there again";
  }
  EXPECT_EQ(NamesIn("data"), (std::vector<std::string>{"train", "val"}));
  EXPECT_EQ(NamesIn("set/val"), (std::vector<std::string>{"a", "deep"}));
}

/// The restored state, or the replaced disk, of a coordinator whose S3 keys are not right yet.
TEST_F(RefreshTest, ALostListingThatS3RefusesLeavesTheLinkUntilItIsAskedAgain) {
  const proto::LinkState was = *GetLink("data");
  StopCoordinator();
  std::filesystem::remove_all(dir / "state" / "snapshots");
  Fault(Error{Code::kDenied, "S3 refuses"});
  StartCoordinator();
  const std::string first = Tasks().back().id();
  EXPECT_EQ(WaitForTask(first).state(), kTaskFailed);
  const Result<proto::LinkState> kept = GetLink("data");
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ(kept->spec().SerializeAsString(), was.spec().SerializeAsString());
  EXPECT_EQ(kept->error(), "S3 refuses");
  const auto stats = admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
  ASSERT_TRUE(stats.has_value()) << stats.error().message;
  ASSERT_EQ(stats->alerts_size(), 1) << "that a task failed is not said twice";
  EXPECT_EQ(stats->alerts(0).name(), "listing_lost");
  EXPECT_GT(stats->alerts(0).since_unix_s(), 0);
  EXPECT_NE(stats->alerts(0).message().find("S3 refuses"), std::string::npos);
  EXPECT_NE(stats->alerts(0).action().find("`forebay refresh data`"), std::string::npos);

  StopCoordinator();
  StartCoordinator();  // which tries again, under a task
  const std::string second = Tasks().back().id();
  EXPECT_NE(second, first);
  EXPECT_EQ(WaitForTask(second).state(), kTaskFailed);
  Fault(std::nullopt);
  EXPECT_EQ(Refresh("data/val").state(), kTaskDone);
  EXPECT_EQ(NamesIn("data"), (std::vector<std::string>{"train", "val"})) << "all of it";
  EXPECT_GT(Generation(), was.generation().generation());
  EXPECT_EQ(GetLink("data")->error(), "");
  const auto later = admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
  ASSERT_TRUE(later.has_value()) << later.error().message;
  for (const proto::Alert& alert : later->alerts()) EXPECT_NE(alert.name(), "listing_lost");
}

TEST_F(RefreshTest, APeriodicLinkListsItselfAgain) {
  proto::LinkRequest request = LinkRequestFor("often", "data/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kPeriodic));
  EXPECT_FALSE(admin.Ask<proto::LinkReply>(address(), Method::kLink, request).has_value())
      << "without a period";
  request.set_refresh_seconds(1);
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  WaitForTask(linked->task_id());
  store.Put("data/val/new", 1);
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (NamesIn("often/val").size() != 3) {
    ASSERT_FALSE(deadline.Expired()) << "the new file does not show";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const proto::TaskState& task : Tasks()) {
    EXPECT_EQ(task.periodic(), task.kind() == "refresh") << "nobody asked for one";
  }
}

}  // namespace
}  // namespace forebay
