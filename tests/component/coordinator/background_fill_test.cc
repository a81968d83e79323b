// When the coordinator fills the rest of a link that a job reads, over real connections to made-up
// nodes and mounts.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "tests/component/coordinator/filling_cluster.h"

namespace forebay {
namespace {

constexpr std::uint64_t kObjects = 1000;
/// Of a link with so many blocks.
constexpr std::uint64_t kEnough = 64;

class BackgroundFillTest : public FillingCluster {
 protected:
  BackgroundFillTest() {
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      store.Put("data/train/" + std::to_string(10'000 + i), 100 + i);
      bytes_ += 100 + i;
    }
    StartCoordinator();
  }
  void Begin(const std::function<void(proto::LinkRequest&)>& change = nullptr,
             const std::function<void(FakeNode&)>& prepare = nullptr) {
    proto::LinkRequest request = LinkRequestFor("data", "data/");
    if (change) change(request);
    const auto reply = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    ASSERT_EQ(WaitForTask(reply->task_id()).state(), kDone);
    StartNodes(prepare);
  }

  /// Mount `mount` has read blocks [from, to) for `job`. Answers whether more are of interest.
  bool Read(const std::string& job, std::uint64_t mount, std::uint64_t from, std::uint64_t to,
            bool ended = false) {
    const auto link = GetLink("data");
    EXPECT_TRUE(link.has_value());
    proto::ReportJobsRequest request;
    request.set_incarnation(mount);
    proto::MountJob& row = *request.add_jobs();
    row.set_job(job);
    row.set_link(link->spec().id());
    row.set_serial(1);
    row.set_generation(link->generation().generation());
    row.set_link_blocks(kObjects);
    row.mutable_waits()->set_reads(to);
    row.set_ended(ended);
    for (std::uint64_t block = from; block < to; ++block) row.add_read_blocks(block + 1);
    const auto reply = client.Ask<proto::ReportJobsReply>(address(), Method::kReportJobs, request);
    EXPECT_TRUE(reply.has_value()) << reply.error().message;
    return reply && reply->jobs_size() == 1 && reply->jobs(0).count_reads();
  }
  std::vector<proto::TaskState> FillTasks() {
    const auto reply =
        admin.Ask<proto::ListTasksReply>(address(), Method::kListTasks, proto::ListTasksRequest());
    EXPECT_TRUE(reply.has_value());
    std::vector<proto::TaskState> fills;
    for (const proto::TaskState& task : reply->tasks()) {
      if (task.kind() == "fill") fills.push_back(task);
    }
    return fills;
  }
  /// Polls until there are so many; the last one.
  proto::TaskState WaitForFill(std::size_t count = 1) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    std::vector<proto::TaskState> fills = FillTasks();
    while (fills.size() < count && !deadline.Expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fills = FillTasks();
    }
    EXPECT_EQ(fills.size(), count);
    return fills.empty() ? proto::TaskState() : fills.back();
  }
  /// Whatever was due has begun: the coordinator looks once a second, in turn, and a fill for
  /// another link that is due later has begun.
  void WaitForAnotherLinksFill() {
    store.Put("other/one", 1);
    MakeLink("other", "other/");
    const auto link = GetLink("other");
    proto::ReportJobsRequest request;
    request.set_incarnation(99);
    proto::MountJob& row = *request.add_jobs();
    row.set_job("zz");  // behind those of the tests, which are done in order
    row.set_link(link->spec().id());
    row.set_link_blocks(1);
    row.set_serial(1);
    row.add_read_blocks(1);
    ASSERT_TRUE(client.Call(address(), Method::kReportJobs, request).has_value());
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    for (;;) {
      for (const proto::TaskState& task : FillTasks()) {
        if (task.link() == "other") return;
      }
      ASSERT_FALSE(deadline.Expired());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::size_t FillsOfData() {
    std::size_t count = 0;
    for (const proto::TaskState& task : FillTasks()) count += task.link() == "data" ? 1 : 0;
    return count;
  }
  std::uint64_t SpareFills() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->spare_fills();
    return sum;
  }

  std::uint64_t bytes_ = 0;
};

TEST_F(BackgroundFillTest, WhatTwoMountsReadForAJobCountsTogetherAndTheRestIsFilled) {
  Begin();
  EXPECT_TRUE(Read("train", 1, 0, 40));
  EXPECT_TRUE(Read("train", 2, 0, 40)) << "the same blocks again";
  EXPECT_TRUE(Read("train", 1, 0, 40));
  EXPECT_TRUE(Read("other", 3, 500, 500 + kEnough - 1)) << "another job's count apart";
  EXPECT_FALSE(Read("train", 2, 40, kEnough)) << "enough: no more need be told";
  const proto::TaskState begun = WaitForFill();
  EXPECT_EQ(begun.target(), "data");
  const proto::TaskState task = WaitForTask(begun.id());
  EXPECT_EQ(task.state(), kDone) << task.error();
  ASSERT_EQ(task.jobs_size(), 1);
  EXPECT_EQ(task.jobs(0), "train");
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(task.bytes(), bytes_);
  EXPECT_EQ(task.fetched_blocks(), kObjects);
  EXPECT_EQ(Kept(), kObjects);
  EXPECT_EQ(SpareFills(), Fills()) << "each of them behind everything else";
  EXPECT_FALSE(task.job_left() || task.no_room());

  EXPECT_FALSE(Read("train", 1, 100, 100 + kEnough)) << "decided";
  WaitForAnotherLinksFill();
  EXPECT_EQ(FillsOfData(), 1u);
}

TEST_F(BackgroundFillTest, ALinkThatIsCompleteStartsNothing) {
  Begin(nullptr, [this](FakeNode& node) {
    if (node.id != "n1") return;
    node.counters.set_link(GetLink("data")->spec().id());
    node.counters.set_cached_bytes(bytes_);
  });
  proto::PreloadRequest request;
  request.mutable_target()->set_text("data");
  const auto preload = admin.Ask<proto::PreloadReply>(address(), Method::kPreload, request);
  ASSERT_TRUE(preload.has_value());
  ASSERT_EQ(WaitForTask(preload->task_id()).done(), kObjects);
  const auto cached = [&] {
    proto::StatsRequest stats;
    return admin.Ask<proto::StatsReply>(address(), Method::kStats, stats)
        ->links(0)
        .total()
        .cached_bytes();
  };
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (cached() < bytes_ && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(cached(), bytes_);
  EXPECT_FALSE(Read("train", 1, 0, kEnough));
  WaitForAnotherLinksFill();
  EXPECT_EQ(FillsOfData(), 0u);
  EXPECT_FALSE(Read("train", 1, 0, kEnough)) << "and is not looked at again for this job";
}

TEST_F(BackgroundFillTest, ACancelledFillDoesNotBeginAgainForItsJobs) {
  Begin();
  Close();
  Read("train", 1, 0, kEnough);
  const std::string id = WaitForFill().id();
  WaitForFills();
  EXPECT_FALSE(Read("late", 2, 0, kEnough)) << "it comes to the fill that runs";
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (Get(id).jobs_size() < 2 && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Get(id).jobs_size(), 2);
  ASSERT_TRUE(Change(Method::kCancelTask, id).has_value());
  Open();
  EXPECT_EQ(Get(id).state(), kCancelled);
  for (int restarts = 0; restarts < 2; ++restarts) {
    const Deadline settled = Deadline::After(std::chrono::seconds(20));
    bool decided = false;
    while (!decided && !settled.Expired()) {
      decided = !Read("train", 1, 0, 1) && !Read("late", 2, 0, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(decided);
    EXPECT_FALSE(Read("train", 1, 0, kEnough));
    EXPECT_EQ(FillsOfData(), 1u);
    if (restarts == 0) RestartCoordinator();
  }
  Read("another", 3, 0, kEnough);
  EXPECT_EQ(WaitForTask(WaitForFill(2).id()).done(), kObjects);
}

TEST_F(BackgroundFillTest, AFillEndsWithTheLastJobAndANewOneMayBegin) {
  Begin();
  Close();
  Read("train", 1, 0, kEnough);
  Read("eval", 2, 0, 1);
  const std::string id = WaitForFill().id();
  WaitForFills();
  Read("train", 1, 0, 0, true);
  WaitForAnotherLinksFill();
  EXPECT_EQ(Get(id).state(), kRunning) << "another job reads the link";
  Read("eval", 2, 0, 0, true);
  const proto::TaskState task = WaitForTask(id);
  Open();
  EXPECT_EQ(task.state(), kDone);
  EXPECT_TRUE(task.job_left());
  EXPECT_LT(task.done(), kObjects);
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (FillsOfData() < 2 && !deadline.Expired()) {
    Read("train", 4, 0, kEnough);  // as long as it is told that all is decided, in vain
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const proto::TaskState next = WaitForTask(WaitForFill(3).id());
  EXPECT_EQ(next.done(), kObjects);
  EXPECT_FALSE(next.job_left());
}

TEST_F(BackgroundFillTest, ItStopsWhenNothingIsFree) {
  Begin();
  // The nodes outlive this frame, and may be asked until their end.
  const auto room = std::make_shared<std::atomic<std::uint64_t>>(100);
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    self->OnFill([self, room](const proto::FillObject&, const BlockId& block) {
      std::uint64_t left = *room;
      while (left > 0 && !room->compare_exchange_weak(left, left - 1)) {
      }
      return left > 0 ? self->Keep(block) : Outcome(FillOutcome::kNoRoom);
    });
  }
  Read("train", 1, 0, kEnough);
  const proto::TaskState task = WaitForTask(WaitForFill().id());
  EXPECT_EQ(task.state(), kDone);
  EXPECT_TRUE(task.no_room());
  EXPECT_EQ(task.fetched_blocks(), 100u);
  EXPECT_EQ(task.done() + task.not_kept(), kObjects);
  EXPECT_EQ(task.bytes() + task.not_kept_bytes(), bytes_);
  EXPECT_FALSE(Read("train", 1, 0, kEnough)) << "not once more for this job";
  WaitForAnotherLinksFill();
  EXPECT_EQ(FillsOfData(), 1u);
}

TEST_F(BackgroundFillTest, AFillThatACoordinatorsRestartInterruptsGoesOn) {
  Begin();
  Close();
  Read("train", 1, 0, kEnough);
  const std::string id = WaitForFill().id();
  WaitForFills();
  RestartCoordinator();
  Open();
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(Kept(), kObjects);
  EXPECT_FALSE(Read("train", 1, 0, kEnough));
}

TEST_F(BackgroundFillTest, ALinkOrAClusterThatIsSwitchedOffIsNeverFilled) {
  Begin([](proto::LinkRequest& request) { request.set_no_background_fill(true); });
  EXPECT_FALSE(Read("train", 1, 0, kEnough));
  WaitForAnotherLinksFill();
  EXPECT_EQ(FillsOfData(), 0u);
  background_fill = false;
  RestartCoordinator();
  proto::UnlinkRequest unlink;
  unlink.set_name("data");
  ASSERT_TRUE(admin.Call(address(), Method::kUnlink, unlink).has_value());
  MakeLink("data", "data/");
  EXPECT_FALSE(Read("train", 1, 0, kEnough));
}

TEST_F(BackgroundFillTest, ItCountsNotAsOneOfThePreloadsAndOnePassesIt) {
  Begin();
  Close();
  Read("train", 1, 0, kEnough);
  const std::string id = WaitForFill().id();
  WaitForFills();
  proto::PreloadRequest request;
  request.mutable_target()->set_text("data");
  const auto preload = admin.Ask<proto::PreloadReply>(address(), Method::kPreload, request);
  ASSERT_TRUE(preload.has_value());
  EXPECT_FALSE(preload->joined()) << "a preload may make room, a fill may not";
  EXPECT_NE(preload->task_id(), id);
  Open();
  EXPECT_EQ(WaitForTask(preload->task_id()).done(), kObjects);
  EXPECT_EQ(WaitForTask(id).done(), kObjects);
}

}  // namespace
}  // namespace forebay
