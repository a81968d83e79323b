#include "coordinator/set_sums.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/task_book.h"
#include "coordinator/task_sum.h"

namespace forebay {
namespace {

proto::TaskState Listing(const std::string& part, TaskPhase phase, std::uint64_t done,
                         std::uint64_t total) {
  proto::TaskState task = TaskBook::Begin("link", "clip." + part);
  task.set_state(static_cast<std::uint32_t>(phase));
  task.set_done(done);
  task.set_total(total);
  task.set_bytes(done * 10);
  if (phase != TaskPhase::kRunning) task.set_ended_unix_s(task.started_unix_s() + 5);
  return task;
}

TEST(TaskSum, IdsAreJoinedAndSplit) {
  EXPECT_EQ(JoinTaskIds({"t-1", "", "t-2"}), "t-1+t-2");
  EXPECT_EQ(JoinTaskIds({"", ""}), "");
  EXPECT_EQ(SplitTaskIds("t-1+t-2"), (std::vector<std::string>{"t-1", "t-2"}));
  EXPECT_EQ(SplitTaskIds("t-1"), std::vector<std::string>{"t-1"});
}

TEST(TaskSum, RunsUntilAllHaveEndedAndKnowsNoTotalBefore) {
  const auto sum = SumOfTasks(
      {Listing("a", TaskPhase::kDone, 5, 5), Listing("b", TaskPhase::kRunning, 2, 0)}, "clip");
  EXPECT_EQ(sum.state(), static_cast<std::uint32_t>(TaskPhase::kRunning));
  EXPECT_EQ(sum.done(), 7u);
  EXPECT_EQ(sum.total(), 0u);
  EXPECT_EQ(sum.bytes(), 70u);
  EXPECT_EQ(sum.ended_unix_s(), 0);
  EXPECT_EQ(sum.target(), "clip");
}

TEST(TaskSum, OfEndedTasksIsDoneOrSaysWhoseFailureItIs) {
  auto done = SumOfTasks(
      {Listing("a", TaskPhase::kDone, 5, 5), Listing("b", TaskPhase::kDone, 2, 2)}, "clip");
  EXPECT_EQ(done.state(), static_cast<std::uint32_t>(TaskPhase::kDone));
  EXPECT_EQ(done.total(), 7u);
  EXPECT_NE(done.ended_unix_s(), 0);
  proto::TaskState failed = Listing("b", TaskPhase::kFailed, 0, 0);
  failed.set_error("denied");
  done = SumOfTasks({Listing("a", TaskPhase::kCancelled, 5, 5), failed}, "clip");
  EXPECT_EQ(done.state(), static_cast<std::uint32_t>(TaskPhase::kFailed));
  EXPECT_EQ(done.error(), "'clip.b': denied");
  done = SumOfTasks(
      {Listing("a", TaskPhase::kDone, 5, 5), Listing("b", TaskPhase::kCancelled, 0, 0)}, "");
  EXPECT_EQ(done.state(), static_cast<std::uint32_t>(TaskPhase::kCancelled));
  EXPECT_EQ(done.target(), "clip.a and 1 more") << "the set is gone";
}

TEST(SetSums, ANodeOfSeveralPartsComesOnce) {
  proto::EvictTargetReply one;
  one.set_objects(3);
  proto::NodeEvicted& node = *one.add_nodes();
  node.set_node_id("n1");
  node.set_blocks(2);
  node.set_bytes(20);
  proto::EvictTargetReply sum;
  AddTo(sum, one);
  AddTo(sum, one);
  EXPECT_EQ(sum.objects(), 6u);
  ASSERT_EQ(sum.nodes_size(), 1);
  EXPECT_EQ(sum.nodes(0).blocks(), 4u);
  EXPECT_EQ(sum.nodes(0).bytes(), 40u);
}

TEST(SetSums, ChangedFilesAreNamedFromTheSet) {
  proto::CheckTargetReply one;
  one.set_objects(3);
  one.set_changed_objects(1);
  one.add_changed()->set_path("x/1.jpg");
  proto::UnknownNode& unknown = *one.add_unknown();
  unknown.set_node_id("n1");
  unknown.set_blocks(2);
  proto::CheckTargetReply sum;
  AddTo(sum, one, "images");
  AddTo(sum, one, "labels");
  EXPECT_EQ(sum.objects(), 6u);
  ASSERT_EQ(sum.changed_size(), 2);
  EXPECT_EQ(sum.changed(0).path(), "images/x/1.jpg");
  EXPECT_EQ(sum.changed(1).path(), "labels/x/1.jpg");
  ASSERT_EQ(sum.unknown_size(), 1);
  EXPECT_EQ(sum.unknown(0).blocks(), 4u);
}

TEST(SetSums, PartsShareTheNodesRoomAndHaveTheirOwnQuotas) {
  proto::PreloadReply one;
  one.set_objects(1);
  one.set_needed_bytes(60);
  one.set_room_bytes(100);
  proto::PreloadReply sum;
  AddTo(sum, one);
  AddTo(sum, one);
  EXPECT_EQ(sum.needed_bytes(), 120u);
  EXPECT_EQ(sum.room_bytes(), 100u) << "one pool";
  one.set_quota_bound(true);
  sum.Clear();
  AddTo(sum, one);
  AddTo(sum, one);
  EXPECT_EQ(sum.room_bytes(), 200u);
  EXPECT_TRUE(sum.quota_bound());
}

}  // namespace
}  // namespace forebay
