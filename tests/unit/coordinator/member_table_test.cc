#include "coordinator/member_table.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

NodeInfo Node(std::string id, std::string address = "127.0.0.1:7441",
              std::uint64_t capacity = 1'000'000) {
  NodeInfo node;
  node.id = std::move(id);
  node.address = std::move(address);
  node.capacity_bytes = capacity;
  return node;
}

class MemberTableTest : public testing::Test {
 protected:
  /// Registers and commits; whether the ring needs a new table.
  Result<bool> Join(const NodeInfo& node, std::uint64_t incarnation,
                    std::optional<std::uint64_t> tabled = std::nullopt) {
    Result<MemberTable::Registration> plan = table.PlanRegistration(node, incarnation, tabled, now);
    if (!plan) return Fail(plan.error());
    table.Commit(plan->member);
    return plan->new_table;
  }
  NodeState State(const std::string& id) { return table.StateOf(table.members().at(id), now); }

  MemberTable table;
  TimePoint now = TimePoint() + minutes(100);
};

TEST_F(MemberTableTest, AJoinNeedsANewTable) { EXPECT_TRUE(*Join(Node("n1"), 1)); }

TEST_F(MemberTableTest, ARestartAtTheSameAddressIsTakenAtOnceAndMovesNothing) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  now += seconds(1);
  const Result<bool> restarted = Join(Node("n1"), 2, 1'000'000);
  ASSERT_TRUE(restarted.has_value());
  EXPECT_FALSE(*restarted);
  EXPECT_FALSE(table.Heartbeat("n1", 1, now)) << "the old process is no member any more";
  EXPECT_TRUE(table.Heartbeat("n1", 2, now));
}

TEST_F(MemberTableTest, ASecondLiveProcessWithTheSameIdIsRefused) {
  ASSERT_TRUE(Join(Node("n1", "127.0.0.1:1"), 1).has_value());
  now += seconds(1);
  ASSERT_TRUE(table.Heartbeat("n1", 1, now));
  const Result<bool> second = Join(Node("n1", "127.0.0.1:2"), 2, 1'000'000);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_NE(second.error().message.find("127.0.0.1:1"), std::string::npos);
  EXPECT_TRUE(table.Heartbeat("n1", 1, now)) << "the first one is not touched";
}

TEST_F(MemberTableTest, ARestartElsewhereIsTakenWhenTheOldProcessIsSilent) {
  ASSERT_TRUE(Join(Node("n1", "127.0.0.1:1"), 1).has_value());
  now += kSilence;
  const Result<bool> restarted = Join(Node("n1", "127.0.0.1:2"), 2, 1'000'000);
  ASSERT_TRUE(restarted.has_value());
  EXPECT_TRUE(*restarted) << "readers must learn the new address";
}

TEST_F(MemberTableTest, OnlyAChangedWeightNeedsANewTable) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  EXPECT_FALSE(*Join(Node("n1", "127.0.0.1:7441", 1'009'000), 2, 1'000'000));
  EXPECT_TRUE(*Join(Node("n1", "127.0.0.1:7441", 1'020'000), 3, 1'000'000));
}

TEST_F(MemberTableTest, SilenceMakesSuspectAndASignOfLifeMakesUp) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  now += kSilence - std::chrono::milliseconds(1);
  EXPECT_EQ(State("n1"), NodeState::kUp);
  now += std::chrono::milliseconds(1);
  EXPECT_EQ(State("n1"), NodeState::kSuspect);
  EXPECT_TRUE(table.PlanOuts(now, 0).empty());
  ASSERT_TRUE(table.Heartbeat("n1", 1, now));
  EXPECT_EQ(State("n1"), NodeState::kUp);
}

TEST_F(MemberTableTest, TenMinutesOfSilenceAreOut) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  ASSERT_TRUE(Join(Node("n2"), 1).has_value());
  for (int i = 0; i < 599; ++i) {
    now += seconds(1);
    ASSERT_TRUE(table.Heartbeat("n2", 1, now));
    ASSERT_TRUE(table.PlanOuts(now, 0).empty()) << i;
  }
  now += seconds(1);
  ASSERT_TRUE(table.Heartbeat("n2", 1, now));
  const std::vector<Member> outs = table.PlanOuts(now, 5000);
  ASSERT_EQ(outs.size(), 1u);
  EXPECT_EQ(outs[0].info.id, "n1");
  table.Commit(outs[0]);
  EXPECT_EQ(State("n1"), NodeState::kOut);
  EXPECT_EQ(table.Nodes(now, false).size(), 1u);
  EXPECT_EQ(table.Nodes(now, true).size(), 2u);
  EXPECT_FALSE(table.Heartbeat("n1", 1, now)) << "it must register to come back";
  EXPECT_TRUE(*Join(Node("n1"), 1, std::nullopt));
}

TEST_F(MemberTableTest, WhenEverybodyIsSilentNobodyGoesOut) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  ASSERT_TRUE(Join(Node("n2"), 1).has_value());
  now += minutes(60);
  EXPECT_TRUE(table.PlanOuts(now, 0).empty());
}

TEST_F(MemberTableTest, OutsAreForgottenAfterADay) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  Member out = table.members().at("n1");
  out.info.state = NodeState::kOut;
  out.out_unix_s = 1000;
  table.Commit(out);
  EXPECT_TRUE(table.PlanForgotten(1000 + 24 * 3600 - 1).empty());
  ASSERT_EQ(table.PlanForgotten(1000 + 24 * 3600).size(), 1u);
  table.Forget("n1");
  EXPECT_TRUE(table.members().empty());
}

TEST_F(MemberTableTest, MembersGetAGraceAfterACoordinatorsStart) {
  Member member;
  member.info = Node("n1", "127.0.0.1:1");
  member.incarnation = 7;
  table.Restore({member}, now);
  now += seconds(9);
  EXPECT_EQ(State("n1"), NodeState::kUp);
  EXPECT_TRUE(table.Heartbeat("n1", 7, now)) << "the same process need not register again";
  now += kSilence;
  EXPECT_EQ(State("n1"), NodeState::kSuspect) << "once heard, the usual silence counts";
}

TEST_F(MemberTableTest, ANodeThatRestartedWhileNobodyListenedIsTakenFromAnyAddress) {
  Member member;
  member.info = Node("n1", "127.0.0.1:1");
  member.incarnation = 7;
  table.Restore({member}, now);
  EXPECT_TRUE(Join(Node("n1", "127.0.0.1:2"), 8, 1'000'000).has_value());
}

TEST_F(MemberTableTest, SenselessNodesAreRefused) {
  EXPECT_EQ(Join(Node(""), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("a/b"), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("n1", ""), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("n1", "h:1", 0), 1).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
