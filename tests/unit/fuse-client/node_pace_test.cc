#include "fuse-client/node_pace.h"

#include <gtest/gtest.h>

#include <string>

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Three nodes that answer a question each, every five milliseconds.
class NodePaceTest : public ::testing::Test {
 protected:
  void Answer(Duration a, Duration b, Duration c, Duration length) {
    for (const TimePoint end = now_ + length; now_ < end; now_ += milliseconds(5)) {
      pace_.Note("a", a, now_);
      pace_.Note("b", b, now_);
      pace_.Note("c", c, now_);
    }
  }
  /// `a` is asked as a slow node is, and the others go on.
  void AnswerSeldom(Duration a, Duration others, Duration length) {
    for (const TimePoint end = now_ + length; now_ < end; now_ += milliseconds(5)) {
      if (pace_.TakeSample("a", now_)) pace_.Note("a", a, now_);
      pace_.Note("b", others, now_);
      pace_.Note("c", others, now_);
    }
  }

  NodePace pace_;
  TimePoint now_ = TimePoint(seconds(1000));
};

TEST_F(NodePaceTest, ANodeTenTimesSlowerThanTheOthersIsSlow) {
  Answer(milliseconds(10), milliseconds(1), milliseconds(1), seconds(2));
  EXPECT_TRUE(pace_.IsSlow("a"));
  EXPECT_FALSE(pace_.IsSlow("b"));
  EXPECT_FALSE(pace_.IsSlow("c"));
}

// It runs for 5 ms of each 200, and a reader waits for it once in 20 answers.
TEST_F(NodePaceTest, ANodeThatStuttersIsSlowThoughMostOfItsAnswersAreQuick) {
  for (int i = 0; i < 20; ++i) {
    Answer(milliseconds(195), milliseconds(1), milliseconds(1), milliseconds(5));
    Answer(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(95));
  }
  EXPECT_TRUE(pace_.IsSlow("a"));
  EXPECT_FALSE(pace_.IsSlow("b"));
  EXPECT_FALSE(pace_.IsSlow("c"));
}

TEST_F(NodePaceTest, OneVeryLateAnswerInAHundredIsNoSlowNode) {
  for (int i = 0; i < 40; ++i) {
    Answer(seconds(2), milliseconds(1), milliseconds(1), milliseconds(5));
    Answer(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(600));
  }
  EXPECT_FALSE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, ANodeThatNoLongerStuttersIsWellAgain) {
  for (int i = 0; i < 20; ++i) {
    Answer(milliseconds(195), milliseconds(1), milliseconds(1), milliseconds(5));
    Answer(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(95));
  }
  ASSERT_TRUE(pace_.IsSlow("a"));
  AnswerSeldom(milliseconds(1), milliseconds(1), seconds(25));
  EXPECT_FALSE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, WhatWasMeasuredWhileANodeWasSilentIsForgottenAtItsReturn) {
  Answer(milliseconds(1), milliseconds(1), milliseconds(1), seconds(4));
  Answer(seconds(1), milliseconds(1), milliseconds(1), seconds(5));
  ASSERT_TRUE(pace_.IsSlow("a"));
  pace_.Returned("a");
  EXPECT_TRUE(pace_.IsSlow("a")) << "it has answered nothing yet";
  pace_.Returned("nobody");
  AnswerSeldom(milliseconds(1), milliseconds(1), milliseconds(5700));
  EXPECT_FALSE(pace_.IsSlow("a")) << "kSlowFor is over, and since its return it was quick";
}

TEST_F(NodePaceTest, ANodeThatIsSlowAtItsReturnStaysSlow) {
  Answer(seconds(1), milliseconds(1), milliseconds(1), seconds(5));
  pace_.Returned("a");
  AnswerSeldom(milliseconds(100), milliseconds(1), seconds(20));
  EXPECT_TRUE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, NobodyIsSlowWhereAllAre) {
  Answer(milliseconds(900), milliseconds(700), milliseconds(500), seconds(20));
  for (const char* id : {"a", "b", "c"}) EXPECT_FALSE(pace_.IsSlow(id));
}

TEST_F(NodePaceTest, MicrosecondsMakeNobodySlow) {
  Answer(milliseconds(2), std::chrono::microseconds(50), std::chrono::microseconds(50),
         seconds(20));
  EXPECT_FALSE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, FewAnswersSayNothing) {
  for (std::uint64_t i = 0; i + 1 < NodePace::kTellingAnswers; ++i)
    pace_.Note("a", seconds(1), now_);
  Answer(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(5));
  EXPECT_FALSE(pace_.IsSlow("a"));
  EXPECT_FALSE(pace_.IsSlow("nobody"));
}

TEST_F(NodePaceTest, ANodeThatIsWellAgainIsAsFastAsTheOthersAfterAWhileAndNotBefore) {
  Answer(milliseconds(100), milliseconds(1), milliseconds(1), seconds(2));
  ASSERT_TRUE(pace_.IsSlow("a"));
  AnswerSeldom(milliseconds(1), milliseconds(1), seconds(5));
  EXPECT_TRUE(pace_.IsSlow("a")) << "it does not come and go with each second";
  AnswerSeldom(milliseconds(1), milliseconds(1), seconds(12));
  EXPECT_FALSE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, ANodeThatStaysSlowStaysSlowThoughItIsAskedSeldom) {
  Answer(milliseconds(100), milliseconds(1), milliseconds(1), seconds(2));
  AnswerSeldom(milliseconds(100), milliseconds(1), seconds(60));
  EXPECT_TRUE(pace_.IsSlow("a"));
}

TEST_F(NodePaceTest, ASlowNodeIsAskedTwiceASecond) {
  pace_.Note("a", milliseconds(1), now_);
  int asked = 0;
  for (int i = 0; i < 1000; ++i, now_ += milliseconds(1))
    asked += pace_.TakeSample("a", now_) ? 1 : 0;
  EXPECT_EQ(asked, 2);
}

TEST_F(NodePaceTest, AnAnswerIsWaitedForThreeTimesAsLongAsTheOthersNeed) {
  Answer(milliseconds(900), milliseconds(100), milliseconds(100), seconds(2));
  const std::optional<Duration> after = pace_.HedgeAfter("a");
  ASSERT_TRUE(after);
  // A bucket is a fifth wide at most, and its upper bound counts.
  EXPECT_GE(*after, milliseconds(300));
  EXPECT_LE(*after, milliseconds(400));
}

TEST_F(NodePaceTest, ShortWaitsAreNotHedged) {
  Answer(milliseconds(1), milliseconds(1), milliseconds(1), seconds(2));
  EXPECT_EQ(pace_.HedgeAfter("a"), NodePace::kHedgeAtLeast);
  EXPECT_EQ(pace_.HedgeAfter("a node that has not answered yet"), NodePace::kHedgeAtLeast);
}

TEST_F(NodePaceTest, NothingIsHedgedWhileNothingIsKnown) { EXPECT_FALSE(pace_.HedgeAfter("a")); }

TEST_F(NodePaceTest, HedgesAgainstNodesThatAreNotSlowAreFew) {
  Answer(milliseconds(1), milliseconds(1), milliseconds(1), seconds(2));
  std::uint64_t hedges = 0;
  while (hedges < 1000 && pace_.TakeHedge("a")) ++hedges;
  EXPECT_EQ(hedges, NodePace::kHedgesAtOnce);
  for (int i = 0; i < 100; ++i) pace_.Note("a", milliseconds(1), now_);
  hedges = 0;
  while (hedges < 1000 && pace_.TakeHedge("a")) ++hedges;
  EXPECT_EQ(hedges, 5u) << "one in twenty answers";
}

TEST_F(NodePaceTest, HedgesAgainstASlowNodeAreNotCounted) {
  Answer(milliseconds(100), milliseconds(1), milliseconds(1), seconds(2));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(pace_.TakeHedge("a"));
}

}  // namespace
}  // namespace forebay
