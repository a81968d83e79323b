#include "coordinator/clock_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

class ClockWatchTest : public ::testing::Test {
 protected:
  /// A heartbeat, a second after the one before, whose clock is so far ahead of the coordinator's.
  std::optional<std::string> Beat(milliseconds ahead) {
    now_ += seconds(1);
    own_unix_ms_ += 1000;
    return watch_.Note("n1", own_unix_ms_ + ahead.count(), own_unix_ms_, now_);
  }
  /// Of so many heartbeats, the lines.
  std::vector<std::string> Beats(int count, milliseconds ahead) {
    std::vector<std::string> lines;
    for (int i = 0; i < count; ++i) {
      std::optional<std::string> line = Beat(ahead);
      if (line) lines.push_back(std::move(*line));
    }
    return lines;
  }
  bool IsWrong() const { return watch_.Of("n1", now_)->wrong_for.has_value(); }

  TimePoint now_{};
  std::int64_t own_unix_ms_ = 1'767'323'045'000;
  ClockWatch watch_;
};

TEST_F(ClockWatchTest, AClockThatIsWrongIsToldOnceWithBothTimesAndOnceMoreWhenItIsRight) {
  for (const milliseconds off : {milliseconds(minutes(60)), milliseconds(minutes(-60))}) {
    const std::vector<std::string> wrong = Beats(100, off);
    ASSERT_EQ(wrong.size(), 1u);
    EXPECT_THAT(wrong[0], testing::MatchesRegex("the clock of node n1 says .* UTC, and the "
                                                "coordinator's .* UTC: set the wrong one"));
    EXPECT_TRUE(IsWrong());
    EXPECT_EQ(watch_.Of("n1", now_)->ahead, off);
    EXPECT_THAT(Beats(100, milliseconds(3)),
                testing::ElementsAre("the clock of node n1 is right again"));
    EXPECT_FALSE(IsWrong());
  }
}

TEST_F(ClockWatchTest, WhatCertificatesTolerateIsRight) {
  EXPECT_EQ(ClockWatch::kWrongFrom, kClockTolerance);
  EXPECT_TRUE(Beats(100, ClockWatch::kWrongFrom - milliseconds(1)).empty());
  EXPECT_TRUE(Beats(100, -ClockWatch::kWrongFrom + milliseconds(1)).empty());
  EXPECT_EQ(Beats(100, ClockWatch::kWrongFrom).size(), 1u);
}

TEST_F(ClockWatchTest, OneThatDriftsAtTheBoundIsToldOnce) {
  EXPECT_EQ(Beats(10, ClockWatch::kWrongFrom).size(), 1u);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(Beats(10, ClockWatch::kWrongFrom - seconds(1)).empty());
    EXPECT_TRUE(Beats(10, ClockWatch::kWrongFrom + seconds(1)).empty());
  }
  EXPECT_TRUE(IsWrong());
}

TEST_F(ClockWatchTest, HeartbeatsThatLaySomewhereAreNoWrongClock) {
  Beats(3, milliseconds(0));
  // A coordinator that was stopped takes what has come meanwhile at one moment.
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(watch_.Note("n1", own_unix_ms_ - 1'200'000, own_unix_ms_, now_));
  EXPECT_TRUE(Beats(10, milliseconds(0)).empty());
}

TEST_F(ClockWatchTest, OneThatDoesNotSayOrIsGoneIsNotKnown) {
  Beats(10, minutes(60));
  EXPECT_TRUE(watch_.Of("n1", now_ + ClockWatch::kHeldFor).has_value());
  EXPECT_FALSE(watch_.Of("n1", now_ + ClockWatch::kHeldFor + seconds(1)).has_value());
  // An older program, in the place of the one that said it.
  EXPECT_FALSE(watch_.Note("n1", 0, own_unix_ms_, now_).has_value());
  EXPECT_FALSE(watch_.Of("n1", now_).has_value());
  EXPECT_FALSE(watch_.Of("n2", now_).has_value());
}

}  // namespace
}  // namespace forebay
