#include "coordinator/doubled_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/program.h"
#include "common/model/limits.h"
#include "coordinator/member_table.h"

namespace forebay {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string kHolder = "10.0.0.1:7441";
const std::string kSecond = "10.0.0.2:7441";

NodeInfo NodeAt(std::string id, std::string address) {
  NodeInfo node;
  node.id = std::move(id);
  node.address = std::move(address);
  return node;
}

class DoubledNodesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kProcess = 7;

  /// `node` asks for n1 once a second for so long, and is refused.
  void AskFor(seconds time, const std::string& address = kSecond,
              const std::string& holder = kHolder) {
    for (seconds i(0); i < time; i += seconds(1)) {
      now_ += seconds(1);
      doubled_.NoteRefused(NodeAt("n1", address), kProcess, holder, now_);
    }
  }
  std::vector<proto::Alert> Alerts() const {
    return doubled_.Alerts(now_, kStart + (now_ - TimePoint()) / seconds(1));
  }
  std::string OnlyMessage() const {
    const std::vector<proto::Alert> alerts = Alerts();
    return alerts.size() == 1 ? alerts[0].message() : std::to_string(alerts.size()) + " alerts";
  }

  static constexpr std::int64_t kStart = 1'767'323'000;
  MembershipTimes times_;
  TimePoint now_{};
  DoubledNodes doubled_{times_.doubled_after, times_.doubled_for};
};

TEST_F(DoubledNodesTest, ASecondNodeIsToldWithBothAddressesAndWhatToDo) {
  AskFor(seconds(15));
  EXPECT_THAT(Alerts(), IsEmpty()) << "14 s after it was refused first";
  AskFor(seconds(1));
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_EQ(alerts[0].name(), "node_doubled");
  EXPECT_EQ(alerts[0].since_unix_s(), kStart + 1);
  EXPECT_EQ(alerts[0].message(),
            "two live processes are node n1: the one at 10.0.0.1:7441 is the member, and the one "
            "at 10.0.0.2:7441 is refused and takes no part");
  EXPECT_THAT(alerts[0].action(), HasSubstr("forebay join HOST:PORT --token T --id NEW"));
  EXPECT_THAT(alerts[0].action(), HasSubstr("--node-id NEW"));
  AskFor(seconds(3600));
  EXPECT_THAT(Alerts(), SizeIs(1)) << "as long as it asks";
}

TEST_F(DoubledNodesTest, ItEndsWhenTheSecondOneHasNotAskedForAWhile) {
  AskFor(seconds(16));
  now_ += times_.doubled_for;
  EXPECT_THAT(Alerts(), SizeIs(1)) << "it may wait for an answer";
  now_ += seconds(1);
  EXPECT_THAT(Alerts(), IsEmpty());
  AskFor(seconds(1));
  EXPECT_THAT(Alerts(), IsEmpty()) << "that is a new case";
}

TEST_F(DoubledNodesTest, ItEndsAtOnceWhenTheSecondOneIsTheMember) {
  AskFor(seconds(16));
  ASSERT_THAT(Alerts(), SizeIs(1));
  doubled_.NoteTaken(NodeAt("n1", kSecond), kProcess);
  EXPECT_THAT(Alerts(), IsEmpty());
  // The one that was there before asks again.
  AskFor(seconds(16), kHolder, kSecond);
  EXPECT_THAT(OnlyMessage(), HasSubstr("the one at 10.0.0.2:7441 is the member"));
}

// The process before it stops, is silent, and what it sent last comes late.
TEST_F(DoubledNodesTest, AMoveThatTakesAsLongAsItMayIsNone) {
  const auto longest = std::chrono::ceil<seconds>(kDrainTime + kSilence);
  for (int move = 0; move < 5; ++move) {
    const std::string address = "10.0.0." + std::to_string(move) + ":1";
    AskFor(longest, address);
    doubled_.NoteTaken(NodeAt("n1", address), kProcess);
    for (int i = 0; i < 60; ++i) {
      EXPECT_THAT(Alerts(), IsEmpty()) << "move " << move << ", " << i << " s after it";
      now_ += seconds(1);
    }
  }
}

TEST_F(DoubledNodesTest, OneThatIsRefusedAndStartedAgainAndAgainIsOne) {
  std::uint64_t process = 100;
  for (int i = 0; i < 10; ++i) {
    now_ += seconds(3);
    doubled_.NoteRefused(NodeAt("n1", kSecond), process++, kHolder, now_);
  }
  EXPECT_THAT(OnlyMessage(), HasSubstr("two live processes"));
  doubled_.NoteTaken(NodeAt("n1", kSecond), process);
  EXPECT_THAT(Alerts(), IsEmpty());
}

TEST_F(DoubledNodesTest, OfTwoAtOneAddressTheStartOfAThirdEndsNothing) {
  AskFor(seconds(16), kHolder);
  EXPECT_THAT(OnlyMessage(), HasSubstr("two live processes are node n1, both at 10.0.0.1:7441, as "
                                       "after a copy of a machine"));
  doubled_.NoteTaken(NodeAt("n1", kHolder), kProcess + 1);
  EXPECT_THAT(Alerts(), SizeIs(1));
  doubled_.NoteTaken(NodeAt("n1", kHolder), kProcess);
  EXPECT_THAT(Alerts(), IsEmpty());
}

TEST_F(DoubledNodesTest, SeveralAreOneSentenceThatStaysShort) {
  for (int second = 0; second < 16; ++second) {
    for (int copy = 2; copy <= 7; ++copy) {
      doubled_.NoteRefused(NodeAt("n1", "10.0.0." + std::to_string(copy) + ":1"), kProcess, kHolder,
                           now_);
    }
    doubled_.NoteRefused(NodeAt("n2", "10.0.0.8:1"), kProcess, "10.0.0.9:1", now_);
    now_ += seconds(1);
  }
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, SizeIs(2));
  EXPECT_EQ(alerts[0].message(),
            "7 live processes are node n1: the one at 10.0.0.1:7441 is the member, and those at "
            "10.0.0.2:1, 10.0.0.3:1, 10.0.0.4:1 and 3 more are refused and take no part");
  EXPECT_THAT(alerts[1].message(), HasSubstr("node n2: the one at 10.0.0.9:1"));
}

TEST_F(DoubledNodesTest, WhatIsKeptIsBoundedAndTheOldestLeavesFirst) {
  for (std::size_t i = 0; i <= DoubledNodes::kMaxRefused; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      const TimePoint at = now_ + twice * times_.doubled_after + std::chrono::microseconds(i);
      doubled_.NoteRefused(NodeAt("n" + std::to_string(i), kSecond), kProcess, kHolder, at);
    }
  }
  now_ += times_.doubled_after + seconds(1);
  EXPECT_EQ(doubled_.refused(), DoubledNodes::kMaxRefused);
  ASSERT_THAT(Alerts(), SizeIs(DoubledNodes::kMaxRefused));
  for (const proto::Alert& alert : Alerts())
    EXPECT_THAT(alert.message(), Not(HasSubstr("are node n0:")));
}

TEST_F(DoubledNodesTest, WhatAProcessSaysOfItselfIsShownAsText) {
  AskFor(seconds(16), "a\nb");
  EXPECT_THAT(OnlyMessage(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace forebay
