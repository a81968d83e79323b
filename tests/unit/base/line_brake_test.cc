#include "common/base/line_brake.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(LineBrake, WhoComesNowAndThenAlwaysHasALine) {
  LineBrake brake;
  TimePoint now = TimePoint() + std::chrono::hours(1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(brake.MaySay(now), 0U);
    now += LineBrake::kEvery;
  }
}

TEST(LineBrake, AFloodIsAFewLinesThatCountTheRest) {
  LineBrake brake;
  TimePoint now = TimePoint() + std::chrono::hours(1);
  std::uint64_t lines = 0;
  std::uint64_t counted = 0;
  constexpr int kSeconds = 3600;
  for (int i = 0; i < kSeconds * 100; ++i) {
    const std::optional<std::uint64_t> unsaid = brake.MaySay(now);
    if (unsaid) counted += 1 + *unsaid;
    if (unsaid) ++lines;
    now += std::chrono::milliseconds(10);
  }
  EXPECT_LE(lines, static_cast<std::uint64_t>(kSeconds / LineBrake::kEvery.count()) + 21);
  // But for those after the last line.
  now += LineBrake::kEvery;
  EXPECT_EQ(counted + *brake.MaySay(now), static_cast<std::uint64_t>(kSeconds) * 100);
}

}  // namespace
}  // namespace forebay
