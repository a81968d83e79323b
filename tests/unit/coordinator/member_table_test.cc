#include "coordinator/member_table.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST_F(MemberTableTest, KnowsWhereAnIdIsHeldByAnotherLiveProcess) {
  EXPECT_EQ(table.HeldAt("n1", 2, now), std::nullopt);
  ASSERT_TRUE(Join(Node("n1", "127.0.0.1:1"), 1).has_value());
  EXPECT_EQ(table.HeldAt("n1", 2, now), "127.0.0.1:1");
  EXPECT_EQ(table.HeldAt("n1", 1, now), std::nullopt) << "it is the same";
  now += kSilence;
  EXPECT_EQ(table.HeldAt("n1", 2, now), std::nullopt) << "it is silent";
}

// A machine was copied, with its id and its address.
TEST_F(MemberTableTest, TwoLiveProcessesAtOneAddressDoNotTakeTurns) {
  ASSERT_TRUE(Join(Node("n1"), 1).has_value());
  now += seconds(1);
  ASSERT_TRUE(Join(Node("n1"), 2, 1'000'000).has_value()) << "it may be a restart";
  for (int i = 0; i < 10; ++i) {
    now += seconds(1);
    ASSERT_FALSE(table.Heartbeat("n1", 1, now));
    const Result<bool> again = Join(Node("n1"), 1, 1'000'000);
    ASSERT_FALSE(again.has_value()) << "after " << i << " s";
    EXPECT_EQ(again.error().code, Code::kInvalid);
    EXPECT_NE(again.error().message.find("two live processes are node n1 at 127.0.0.1:7441"),
              std::string::npos);
    EXPECT_TRUE(table.Heartbeat("n1", 2, now));
  }
  // A third copy.
  ASSERT_TRUE(Join(Node("n1"), 3, 1'000'000).has_value());
  EXPECT_FALSE(Join(Node("n1"), 1, 1'000'000).has_value());
  EXPECT_FALSE(Join(Node("n1"), 2, 1'000'000).has_value());
  // The one that was there has been stopped.
  now += kSilence;
  EXPECT_TRUE(Join(Node("n1"), 1, 1'000'000).has_value());
  EXPECT_FALSE(Join(Node("n1"), 3, 1'000'000).has_value());
}

TEST_F(MemberTableTest, OfManyRestartsTheLastAreRemembered) {
  for (std::uint64_t process = 1; process <= 100; ++process)
    ASSERT_TRUE(Join(Node("n1"), process, 1'000'000).has_value());
  EXPECT_LE(table.members().at("n1").displaced.size(), 16U);
  EXPECT_FALSE(Join(Node("n1"), 99, 1'000'000).has_value());
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

/// Two nodes whose heartbeats say what their disks hold.
class RoomTest : public MemberTableTest {
 protected:
  RoomTest() {
    for (const char* id : {"n1", "n2"}) EXPECT_TRUE(Join(Node(id), 1).has_value());
  }
  /// `wait` of heartbeats with so much room of n1; the weights that are to change at its end.
  std::vector<Member> Wait(Duration wait, std::uint64_t room) {
    const TimePoint end = now + wait;
    for (;; now += std::min<Duration>(seconds(1), end - now)) {
      for (const char* id : {"n1", "n2"}) EXPECT_TRUE(table.Heartbeat(id, 1, now));
      table.NoteRoom("n1", room, now);
      table.NoteRoom("n2", 1'000'000, now);
      if (now >= end || !table.PlanWeights(now).empty()) return table.PlanWeights(now);
    }
  }
  Duration Elapsed() const { return now - (TimePoint() + minutes(100)); }
};

TEST_F(RoomTest, AMinuteWithoutADiskMakesTheShareSmallerAndFiveWithItMakeItLarger) {
  const std::vector<Member> less = Wait(minutes(10), 500'000);
  ASSERT_EQ(less.size(), 1u);
  EXPECT_EQ(less[0].info.id, "n1");
  EXPECT_EQ(less[0].info.capacity_bytes, 500'000u);
  EXPECT_EQ(Elapsed(), minutes(1));
  table.Commit(less[0]);
  EXPECT_TRUE(Wait(minutes(10), 500'000).empty()) << "once";
  const TimePoint back = now;
  const std::vector<Member> more = Wait(minutes(10), 1'000'000);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].info.capacity_bytes, 1'000'000u);
  EXPECT_EQ(now - back, minutes(5));
}

TEST_F(RoomTest, ADiskThatComesAndGoesMovesNothing) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Wait(seconds(59), 500'000).empty());
    EXPECT_TRUE(Wait(seconds(5), 1'000'000).empty());
  }
  // One disk after the other: the wait is that of the last.
  EXPECT_TRUE(Wait(seconds(59), 800'000).empty());
  EXPECT_TRUE(Wait(seconds(59), 600'000).empty());
  ASSERT_EQ(Wait(seconds(2), 600'000).size(), 1u);
}

TEST_F(RoomTest, WhatIsHardlyAChangeOrNotHeardOfAnyMoreMovesNothing) {
  EXPECT_TRUE(Wait(minutes(10), 995'000).empty());
  EXPECT_TRUE(Wait(seconds(30), 500'000).empty());
  now += minutes(5);
  EXPECT_TRUE(table.PlanWeights(now).empty()) << "a silent node keeps its share";
}

TEST_F(RoomTest, ANodeWithoutAnyDiskOwnsNextToNothingAndStaysAMember) {
  const std::vector<Member> none = Wait(minutes(10), 0);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].info.capacity_bytes, 1u);
  EXPECT_TRUE(none[0].in_ring());
}

TEST_F(RoomTest, ADrainingNodeIsNotWeighed) {
  const Result<std::optional<Member>> drain = table.PlanDrain("n1", now);
  ASSERT_TRUE(drain.has_value());
  table.Commit(**drain);
  EXPECT_TRUE(Wait(minutes(10), 500'000).empty());
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
  EXPECT_TRUE(table.PlanForgotten(now, 1000 + 24 * 3600 - 1).empty());
  ASSERT_EQ(table.PlanForgotten(now, 1000 + 24 * 3600).size(), 1u);
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

TEST_F(MemberTableTest, ANodeThatRestartedWhileNobodyListenedIsTakenAtItsAddressAtOnce) {
  Member member;
  member.info = Node("n1", "127.0.0.1:1");
  member.incarnation = 7;
  table.Restore({member}, now);
  EXPECT_TRUE(Join(Node("n1", "127.0.0.1:1"), 8, 1'000'000).has_value());
}

// A copy of the machine may be the first that the coordinator hears after its start.
TEST_F(MemberTableTest, AtAnotherAddressItIsTakenWhenTheOneBeforeHasHadItsTime) {
  Member member;
  member.info = Node("n1", "127.0.0.1:1");
  member.incarnation = 7;
  table.Restore({member}, now);
  EXPECT_EQ(Join(Node("n1", "127.0.0.1:2"), 8, 1'000'000).error().code, Code::kInvalid);
  EXPECT_TRUE(table.HolderHeard(Node("n1", "127.0.0.1:2"), 8, now));
  now += MembershipTimes().restart_grace;
  EXPECT_FALSE(table.HolderHeard(Node("n1", "127.0.0.1:2"), 8, now));
  EXPECT_TRUE(Join(Node("n1", "127.0.0.1:2"), 8, 1'000'000).has_value());
}

TEST_F(MemberTableTest, SenselessNodesAreRefused) {
  EXPECT_EQ(Join(Node(""), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("a/b"), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("n1", ""), 1).error().code, Code::kInvalid);
  EXPECT_EQ(Join(Node("n1", "h:1", 0), 1).error().code, Code::kInvalid);
}

// What an administrator decides.
class MemberDecisionsTest : public MemberTableTest {
 protected:
  MemberDecisionsTest() {
    for (const char* id : {"n1", "n2"}) {
      EXPECT_TRUE(Join(Node(id, std::string(id) + ":1"), 1).has_value());
    }
  }
  /// Commits; whether anything changed.
  Result<bool> Take(const Result<std::optional<Member>>& plan) {
    if (!plan) return Fail(plan.error());
    if (!*plan) return false;
    table.Commit(**plan);
    return true;
  }
  Result<bool> Dismiss(const std::string& id, Dismissal why) {
    return Take(table.PlanDismissal(id, why, now, 1000));
  }
  Result<bool> Drain(const std::string& id) { return Take(table.PlanDrain(id, now)); }
  Result<bool> Return(const std::string& id) { return Take(table.PlanReturn(id)); }
  void ExpectRefused(const Result<bool>& answer, Code code, const std::string& words) {
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, code);
    EXPECT_NE(answer.error().message.find(words), std::string::npos) << answer.error().message;
    EXPECT_NE(answer.error().message.find("nothing was changed"), std::string::npos);
  }
};

TEST_F(MemberDecisionsTest, ARemovedNodeComesBackOnlyWithItsNextProcess) {
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kRemoved));
  EXPECT_EQ(State("n1"), NodeState::kOut);
  EXPECT_FALSE(*Dismiss("n1", Dismissal::kRemoved)) << "a second time changes nothing";
  EXPECT_FALSE(table.Heartbeat("n1", 1, now));
  const Result<bool> same = Join(Node("n1", "n1:1"), 1);
  ASSERT_FALSE(same.has_value());
  EXPECT_EQ(same.error().code, Code::kDenied);
  EXPECT_TRUE(*Join(Node("n1", "n1:1"), 2));
  EXPECT_EQ(State("n1"), NodeState::kUp);
}

TEST_F(MemberDecisionsTest, AFencedNodeStaysOutOverRestartsUntilItIsTakenBack) {
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kFenced));
  for (const std::uint64_t incarnation : {std::uint64_t{1}, std::uint64_t{2}}) {
    const Result<bool> again = Join(Node("n1", "n1:1"), incarnation);
    ASSERT_FALSE(again.has_value());
    EXPECT_NE(again.error().message.find("fenced"), std::string::npos);
  }
  EXPECT_TRUE(*Return("n1"));
  EXPECT_EQ(State("n1"), NodeState::kOut) << "until it is heard";
  EXPECT_TRUE(*Join(Node("n1", "n1:1"), 1));
}

TEST_F(MemberDecisionsTest, TheLastNodeThatCanServeStays) {
  ExpectRefused(Dismiss("n9", Dismissal::kRemoved), Code::kNotFound, "no node 'n9'");
  EXPECT_TRUE(*Drain("n2"));
  ExpectRefused(Dismiss("n1", Dismissal::kRemoved), Code::kInvalid, "the last one");
  ExpectRefused(Dismiss("n1", Dismissal::kFenced), Code::kInvalid, "the last one");
  ExpectRefused(Drain("n1"), Code::kInvalid, "the last one");
  EXPECT_TRUE(*Return("n2"));
  now += kSilence;
  ASSERT_TRUE(table.Heartbeat("n1", 1, now));
  ExpectRefused(Dismiss("n1", Dismissal::kRemoved), Code::kInvalid, "the last one");
  EXPECT_TRUE(*Dismiss("n2", Dismissal::kRemoved)) << "the silent one may go";
}

TEST_F(MemberDecisionsTest, WhoIsUpIsNotKnownRightAfterTheStart) {
  std::vector<Member> members;
  for (const auto& [id, member] : table.members()) members.push_back(member);
  table.Restore(members, now);
  now += seconds(1);
  const char* const kUnheard = "no node but n2 has been heard since this coordinator began";
  ExpectRefused(Dismiss("n2", Dismissal::kRemoved), Code::kUnavailable, kUnheard);
  ExpectRefused(Drain("n1"), Code::kUnavailable, "nothing of node n1 has been heard");
  ASSERT_TRUE(table.Heartbeat("n2", 1, now));
  ExpectRefused(Drain("n2"), Code::kUnavailable, kUnheard);
  now += MembershipTimes().restart_grace;
  ASSERT_TRUE(table.Heartbeat("n2", 1, now));
  ExpectRefused(Dismiss("n2", Dismissal::kRemoved), Code::kInvalid, "the last one");
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kRemoved)) << "it has been silent all the time";
}

TEST_F(MemberDecisionsTest, ADrainLastsOverARestartAndSilenceOfItsNode) {
  EXPECT_TRUE(*Drain("n1"));
  EXPECT_FALSE(*Drain("n1"));
  EXPECT_EQ(State("n1"), NodeState::kDraining);
  EXPECT_FALSE(*Join(Node("n1", "n1:1"), 2, 1'000'000));
  EXPECT_EQ(State("n1"), NodeState::kDraining);
  now += kSilence;
  EXPECT_EQ(State("n1"), NodeState::kSuspect);
  EXPECT_EQ(table.members().at("n1").info.state, NodeState::kDraining) << "it owns nothing";
}

TEST_F(MemberDecisionsTest, OnlyADrainingNodeEndsDrained) {
  const Result<bool> early = Dismiss("n1", Dismissal::kDrained);
  ASSERT_FALSE(early.has_value());
  EXPECT_TRUE(*Drain("n1"));
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kDrained));
  EXPECT_FALSE(*Dismiss("n1", Dismissal::kRemoved)) << "as good as removed";
  EXPECT_FALSE(Join(Node("n1", "n1:1"), 1).has_value());
  ExpectRefused(Drain("n1"), Code::kInvalid, "out of the cluster already");
  EXPECT_TRUE(*Join(Node("n1", "n1:1"), 2));
}

TEST_F(MemberDecisionsTest, WhatIsDownIsNotDrainedNorTakenBack) {
  now += seconds(7);
  ASSERT_TRUE(table.Heartbeat("n2", 1, now));
  ExpectRefused(Drain("n1"), Code::kInvalid, "has not been heard for 7 s");
  EXPECT_FALSE(*Return("n1")) << "it is in the ring";
  now += minutes(10);
  ASSERT_TRUE(table.Heartbeat("n2", 1, now));
  for (const Member& out : table.PlanOuts(now, 1000)) table.Commit(out);
  EXPECT_FALSE(*Return("n1")) << "it comes back by itself";
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kRemoved)) << "one that is out may still be removed";
}

TEST_F(MemberDecisionsTest, WhoStillAsksOrIsFencedIsNotForgotten) {
  constexpr std::int64_t kLater = 1000 + 25 * 3600;
  EXPECT_TRUE(*Dismiss("n1", Dismissal::kRemoved));
  now += std::chrono::hours(25);
  EXPECT_FALSE(table.Heartbeat("n1", 1, now));
  EXPECT_TRUE(table.PlanForgotten(now, kLater).empty()) << "it would come back as new";
  now += minutes(11);
  EXPECT_EQ(table.PlanForgotten(now, kLater), std::vector<std::string>{"n1"});
  EXPECT_TRUE(*Take(table.PlanDismissal("n1", Dismissal::kFenced, now, 1000)));
  EXPECT_TRUE(table.PlanForgotten(now, kLater).empty());
}

}  // namespace
}  // namespace forebay
