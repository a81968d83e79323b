#include "coordinator/join_brake.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(JoinBrake, LetsACrowdAskAtItsRateAlone) {
  const TimePoint start = TimePoint() + std::chrono::hours(1);
  JoinBrake brake(start);
  int asked = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    for (int i = 0; i < 10; ++i)
      asked += brake.MayAsk(start + std::chrono::milliseconds(ms)) ? 1 : 0;
  }
  EXPECT_GE(asked, 990);
  EXPECT_LE(asked, 1030) << "10 s, and a burst";
}

TEST(JoinBrake, OneWhoComesAloneIsNeverHeldUp) {
  const TimePoint start = TimePoint() + std::chrono::hours(1);
  JoinBrake brake(start);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(brake.MayAsk(start + std::chrono::seconds(i)));
}

TEST(JoinBrake, RefusalsAreSummedUpInFewLines) {
  const TimePoint start = TimePoint() + std::chrono::hours(1);
  JoinBrake brake(start);
  EXPECT_EQ(brake.MaySay(start), std::optional<std::uint64_t>(0)) << "the first is told at once";
  std::uint64_t lines = 0;
  std::uint64_t summed = 0;
  constexpr int kRefusals = 10'000;
  for (int ms = 1; ms <= kRefusals; ++ms) {
    const auto said = brake.MaySay(start + std::chrono::milliseconds(ms));
    lines += said ? 1 : 0;
    summed += said.value_or(0);
  }
  EXPECT_GE(lines, 9u);
  EXPECT_LE(lines, 11u);
  const auto last = brake.MaySay(start + std::chrono::minutes(1));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(lines + summed + *last, static_cast<std::uint64_t>(kRefusals)) << "none is forgotten";
}

}  // namespace
}  // namespace forebay
