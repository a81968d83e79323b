// The coordinator's side of drains, and of what else an administrator decides about nodes, over
// real connections to made-up nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/ring/ring.h"
#include "tests/component/coordinator/filling_cluster.h"

namespace forebay {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kObjects = 600;

class DrainTest : public FillingCluster {
 protected:
  DrainTest() {
    for (std::uint64_t i = 0; i < kObjects; ++i)
      store.Put("data/" + std::to_string(10'000 + i), 100 + i);
    StartCoordinator();
    MakeLink("data", "data/");
    StartNodes();
  }

  void Preload() {
    proto::PreloadRequest request;
    request.mutable_target()->set_text("data");
    const auto reply = admin.Ask<proto::PreloadReply>(address(), Method::kPreload, request);
    ASSERT_TRUE(reply.has_value());
    ASSERT_EQ(WaitForTask(reply->task_id()).state(), kDone);
    ASSERT_EQ(Kept(), kObjects);
  }
  Result<proto::ChangeNodeReply> Decide(const std::string& node, NodeChange change) {
    proto::ChangeNodeRequest request;
    request.set_node(node);
    request.set_change(static_cast<std::uint32_t>(change));
    return admin.Ask<proto::ChangeNodeReply>(address(), Method::kChangeNode, request);
  }
  std::string Drain(const std::string& node) {
    const auto reply = Decide(node, NodeChange::kDrain);
    EXPECT_TRUE(reply.has_value()) << reply.error().message;
    return reply ? reply->task_id() : "";
  }
  RingTable Ring() {
    std::string bytes;
    const auto reply = client.Ask<proto::GetRingReply>(address(), Method::kGetRing,
                                                       proto::GetRingRequest(), &bytes);
    EXPECT_TRUE(reply.has_value());
    Result<RingTable> table = RingTable::Parse(bytes);
    EXPECT_TRUE(table.has_value());
    return table ? std::move(*table) : RingTable();
  }
  /// "up", "draining", "out 2" (the Dismissal), as `nodes` has it.
  std::string StateOf(const std::string& id) {
    const auto reply =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    for (const proto::NodeStats& node : reply->nodes()) {
      if (node.info().id() != id) continue;
      static const char* const kNames[] = {"up", "suspect", "draining", "out"};
      const std::string name = kNames[node.info().state()];
      return node.dismissal() == 0 ? name : name + " " + std::to_string(node.dismissal());
    }
    return "unknown";
  }
  std::vector<std::string> Alerts() {
    const auto reply =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    std::vector<std::string> names;
    for (const proto::Alert& alert : reply->alerts()) names.push_back(alert.name());
    return names;
  }
  /// Of all links at all nodes, as they reported.
  std::uint64_t CachedBytes() {
    const auto reply =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    std::uint64_t sum = 0;
    for (const proto::LinkStats& link : reply->links()) sum += link.total().cached_bytes();
    return sum;
  }
  /// Of the blocks, how many the first owner of now does not keep.
  std::size_t Misplaced(const std::set<BlockId>& blocks) {
    const RingTable ring = Ring();
    std::size_t misplaced = 0;
    for (const BlockId& block : blocks) {
      const NodeInfo& owner = ring.nodes()[ring.OwnersOf(PartitionOf(block)).front()];
      for (const auto& node : nodes_) {
        if (node->id == owner.id && !node->kept().contains(block)) ++misplaced;
      }
    }
    return misplaced;
  }
  std::uint64_t PeerFills() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->peer_fills();
    return sum;
  }
};

TEST_F(DrainTest, WhatTheNodeHoldsComesToItsNewOwnersWithoutAGet) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  ASSERT_GT(held.size(), kObjects / 6);
  const std::uint64_t fills = Fills();
  const proto::TaskState task = WaitForTask(Drain("n1"));
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.kind(), "drain");
  EXPECT_EQ(task.target(), "n1");
  EXPECT_EQ(task.done(), held.size());
  EXPECT_EQ(task.total(), held.size());
  EXPECT_EQ(task.bytes(), task.total_bytes());
  EXPECT_EQ(Fills() - fills, held.size()) << "nothing else moves";
  EXPECT_EQ(PeerFills(), held.size()) << "from the node, never from S3";
  EXPECT_EQ(Misplaced(held), 0u);
  EXPECT_EQ(StateOf("n1"), "out 2");
  EXPECT_EQ(Ring().Find("n1"), nullptr);
  EXPECT_TRUE(Alerts().empty()) << "somebody wanted it";
  // A script that says it once more has what it wanted.
  const auto again = Decide("n1", NodeChange::kDrain);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_FALSE(again->changed());
  EXPECT_EQ(again->task_id(), task.id());
  nodes_[0]->Restart();
  ASSERT_TRUE(nodes_[0]->Register(address()).has_value());
  EXPECT_NE(Drain("n1"), task.id()) << "it is a member again";
}

TEST_F(DrainTest, WhatJobsWantIsCopiedFirst) {
  const auto is_hot = [](const BlockId& block) { return block.length % 3 == 0; };
  nodes_[0]->heat = [&](const BlockId& block) {
    return is_hot(block) ? BlockHeat::kWanted : BlockHeat::kUsedToday;
  };
  Preload();
  std::mutex mutex;
  std::vector<bool> order;
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    node->OnFill([&, self](const proto::FillObject&, const BlockId& block) {
      const std::scoped_lock lock(mutex);
      order.push_back(is_hot(block));
      return self->Keep(block);
    });
  }
  ASSERT_EQ(WaitForTask(Drain("n1")).state(), kDone);
  OnFill(nullptr);
  const auto hot = static_cast<std::size_t>(std::ranges::count(order, true));
  ASSERT_GT(hot, 0u);
  ASSERT_LT(hot, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i < hot) << i;
}

TEST_F(DrainTest, GoesOnAfterARestartOfTheCoordinator) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  Close();
  const std::string id = Drain("n1");
  WaitForFills();
  EXPECT_EQ(StateOf("n1"), "draining");
  RestartCoordinator();
  Open();
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(Misplaced(held), 0u);
  EXPECT_EQ(StateOf("n1"), "out 2");
}

TEST_F(DrainTest, WaitsForTheListingOfWhatTheNodeHolds) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  const std::string link = GetLink("data")->spec().id();
  RestartCoordinator([&] {
    std::filesystem::remove_all(dir / state_name / "snapshots");
    nodes_[0]->counters.set_link(link);
    nodes_[0]->counters.set_cached_bytes(1'000'000);
    store.HangAfter(0);
  });
  ASSERT_TRUE(store.WaitUntilHanging());
  while (CachedBytes() == 0 || StateOf("n2") != "up" || StateOf("n3") != "up")
    std::this_thread::yield();
  const std::string id = Drain("n1");
  const Deadline look = Deadline::After(std::chrono::milliseconds(500));
  while (!look.Expired()) ASSERT_EQ(Get(id).state(), kRunning);
  EXPECT_EQ(StateOf("n1"), "draining");
  store.Interrupt();
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), held.size());
  EXPECT_EQ(Misplaced(held), 0u);
}

// As after a takeover: what the node holds is known from its first word only.
TEST_F(DrainTest, WaitsForTheWordOfANodeWhereAListingIsMissing) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  const std::string link = GetLink("data")->spec().id();
  Close();
  const std::string id = Drain("n1");
  WaitForFills();
  SetSilent(0, true);
  RestartCoordinator([&] {
    std::filesystem::remove_all(dir / state_name / "snapshots");
    store.HangAfter(0);
  });
  Open();
  ASSERT_TRUE(store.WaitUntilHanging());
  const Deadline look = Deadline::After(std::chrono::milliseconds(500));
  while (!look.Expired()) ASSERT_EQ(Get(id).state(), kRunning);
  EXPECT_NE(StateOf("n1"), "out 2");
  nodes_[0]->counters.set_link(link);
  nodes_[0]->counters.set_cached_bytes(1'000'000);
  SetSilent(0, false);
  while (CachedBytes() == 0) std::this_thread::yield();
  store.Interrupt();
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(Misplaced(held), 0u);
}

TEST_F(DrainTest, ASecondDrainJoinsTheFirstAndUndrainEndsIt) {
  Preload();
  Close();
  const std::string id = Drain("n1");
  WaitForFills();
  const auto second = Decide("n1", NodeChange::kDrain);
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->changed());
  EXPECT_EQ(second->task_id(), id);
  const std::uint64_t epoch = Ring().epoch();
  const auto back = Decide("n1", NodeChange::kUndrain);
  Open();
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_TRUE(back->changed());
  EXPECT_EQ(back->ring_epoch(), epoch + 1);
  EXPECT_EQ(Get(id).state(), kCancelled);
  EXPECT_EQ(StateOf("n1"), "up");
  EXPECT_LE(Misplaced(nodes_[0]->kept()), 2u) << "it owns again what it owned, to a rounding";
  EXPECT_FALSE(Decide("n1", NodeChange::kUndrain)->changed());
  const proto::TaskState again = WaitForTask(Drain("n1"));
  EXPECT_EQ(again.state(), kDone) << again.error();
}

TEST_F(DrainTest, CancellingTheTaskTakesTheNodeBack) {
  Preload();
  Close();
  const std::string id = Drain("n1");
  WaitForFills();
  const auto cancelled = Change(Method::kCancelTask, id);
  Open();
  ASSERT_TRUE(cancelled.has_value()) << cancelled.error().message;
  EXPECT_EQ(cancelled->task().state(), kCancelled);
  EXPECT_EQ(StateOf("n1"), "up");
}

TEST_F(DrainTest, RemovingADrainingNodeEndsItsDrain) {
  Preload();
  Close();
  const std::string id = Drain("n1");
  WaitForFills();
  ASSERT_TRUE(Decide("n1", NodeChange::kRemove).has_value());
  Open();
  EXPECT_EQ(Get(id).state(), kCancelled);
  EXPECT_THAT(Get(id).error(), HasSubstr("removed"));
  EXPECT_EQ(StateOf("n1"), "out 1");
}

TEST_F(DrainTest, WhatFindsNoRoomIsCountedAndHoldsNothingUp) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  OnFill([](const proto::FillObject&, const BlockId&) { return Outcome(FillOutcome::kNoRoom); });
  const proto::TaskState task = WaitForTask(Drain("n1"));
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), 0u);
  EXPECT_EQ(task.not_kept(), held.size());
  EXPECT_EQ(StateOf("n1"), "out 2");
}

TEST_F(DrainTest, AnOwnerThatDiesMeanwhileIsReplacedByTheNext) {
  Preload();
  const std::set<BlockId> held = nodes_[0]->kept();
  KillNode(2);
  const proto::TaskState task = WaitForTask(Drain("n1"));
  EXPECT_EQ(task.state(), kDone) << task.error();
  for (const BlockId& block : held) EXPECT_TRUE(nodes_[1]->kept().contains(block));
}

TEST_F(DrainTest, DecisionsOutliveARestartOfTheCoordinator) {
  ASSERT_TRUE(Decide("n1", NodeChange::kFence)->changed());
  EXPECT_FALSE(Decide("n1", NodeChange::kFence)->changed());
  ASSERT_TRUE(Decide("n2", NodeChange::kRemove)->changed());
  EXPECT_EQ(Alerts(), std::vector<std::string>{"node_fenced"});
  RestartCoordinator();
  EXPECT_EQ(StateOf("n1"), "out 3");
  EXPECT_EQ(StateOf("n2"), "out 1");
  nodes_[0]->Restart();
  const auto fenced = nodes_[0]->Register(address());
  ASSERT_FALSE(fenced.has_value());
  EXPECT_EQ(fenced.error().code, Code::kDenied);
  EXPECT_THAT(fenced.error().message, HasSubstr("fenced"));
  EXPECT_FALSE(nodes_[1]->Register(address()).has_value()) << "the process that was removed";
  nodes_[1]->Restart();
  EXPECT_TRUE(nodes_[1]->Register(address()).has_value());
  ASSERT_TRUE(Decide("n1", NodeChange::kUndrain)->changed());
  EXPECT_TRUE(nodes_[0]->Register(address()).has_value());
}

TEST_F(DrainTest, WhatMakesNoSenseIsRefusedAndChangesNothing) {
  const std::uint64_t epoch = Ring().epoch();
  for (const NodeChange change :
       {NodeChange::kRemove, NodeChange::kFence, NodeChange::kDrain, NodeChange::kUndrain}) {
    const auto unknown = Decide("n4", change);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().code, Code::kNotFound);
    EXPECT_THAT(unknown.error().message, HasSubstr("no node 'n4'"));
  }
  EXPECT_EQ(Decide("n1", static_cast<NodeChange>(9)).error().code, Code::kInvalid);
  EXPECT_EQ(Ring().epoch(), epoch);
  ASSERT_TRUE(Decide("n1", NodeChange::kRemove).has_value());
  ASSERT_TRUE(Decide("n2", NodeChange::kRemove).has_value());
  const std::uint64_t last = Ring().epoch();
  for (const NodeChange change : {NodeChange::kRemove, NodeChange::kFence, NodeChange::kDrain}) {
    const auto refused = Decide("n3", change);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, HasSubstr("the last one"));
  }
  EXPECT_EQ(Ring().epoch(), last);
  EXPECT_EQ(StateOf("n3"), "up");
}

}  // namespace
}  // namespace forebay
