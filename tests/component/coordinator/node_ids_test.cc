#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/ring/ring.h"
#include "tests/component/coordinator/cluster_fixture.h"

// Several processes that are one node to their own minds.
namespace forebay {
namespace {

class NodeIdsTest : public ClusterTest {
 protected:
  std::string Doubled() { return Message("node_doubled"); }
  /// What the alert says; "" = there is none.
  std::string Message(std::string_view name) {
    const proto::StatsReply stats =
        *admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    for (const proto::Alert& alert : stats.alerts())
      if (alert.name() == name) return alert.message();
    return "";
  }
};

TEST_F(NodeIdsTest, ASecondProcessOfALiveNodeIsRefused) {
  StartCoordinator();
  FakeNode first("n1", secret), second("n1", secret);
  ASSERT_TRUE(first.Register(address()).has_value());
  second.incarnation = 2;
  std::atomic<bool> done{false};
  std::thread beating([&] {
    while (!done) EXPECT_TRUE(first.Heartbeat(address()).has_value());
  });
  const auto refused = second.Register(address());
  done = true;
  beating.join();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("n1"), std::string::npos);
  EXPECT_EQ(coordinator->ring_epoch(), 1u);
}

TEST_F(NodeIdsTest, ASecondNodeOfAnIdIsAnAlertUntilItIsTheMember) {
  times.suspect_after = std::chrono::seconds(2);
  times.doubled_after = std::chrono::milliseconds(300);
  StartCoordinator();
  FakeNode first("n1", secret), second("n1", secret);
  ASSERT_TRUE(first.Register(address()).has_value());
  second.incarnation = 2;
  std::atomic<bool> done{false};
  std::thread beating([&] {
    while (!done) EXPECT_TRUE(first.Heartbeat(address()).has_value());
  });
  std::string message;
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (message.empty() && !deadline.Expired()) {
    EXPECT_FALSE(second.Register(address()).has_value());
    message = Doubled();
  }
  done = true;
  beating.join();
  EXPECT_NE(message.find("at " + first.address() + " is the member"), std::string::npos) << message;
  EXPECT_NE(message.find("at " + second.address() + " is refused"), std::string::npos) << message;
  // The first one has ended.
  EXPECT_TRUE(second.Register(address()).has_value());
  EXPECT_EQ(Doubled(), "");
}

TEST_F(NodeIdsTest, TwoNodesAtOneAddressAreAnAlertUntilOneIsGone) {
  times.suspect_after = std::chrono::minutes(1);  // they say nothing
  StartCoordinator();
  FakeNode first("n1", secret), second("n2", secret);
  second.advertised = first.address();
  ASSERT_TRUE(first.Register(address()).has_value());
  ASSERT_TRUE(second.Register(address()).has_value());
  EXPECT_NE(Message("address_shared").find("nodes n1, n2 all say that " + first.address()),
            std::string::npos);
  proto::ChangeNodeRequest remove;
  remove.set_node("n2");
  remove.set_change(static_cast<std::uint32_t>(NodeChange::kRemove));
  ASSERT_TRUE(
      admin.Ask<proto::ChangeNodeReply>(address(), Method::kChangeNode, remove).has_value());
  EXPECT_EQ(Message("address_shared"), "");
}

TEST_F(NodeIdsTest, ANodeThatDiedAndCameBackElsewhereWaitsForTheOldOnesSilence) {
  times.suspect_after = std::chrono::milliseconds(300);
  StartCoordinator();
  FakeNode dead("n1", secret), next("n1", secret);
  ASSERT_TRUE(dead.Register(address()).has_value());
  next.incarnation = 2;
  std::string table;
  const auto taken = next.Register(address(), &table);
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_EQ(RingTable::Parse(table)->Find("n1")->address, next.address());
  EXPECT_TRUE(dead.Heartbeat(address())->register_again());
}

}  // namespace
}  // namespace forebay
