#include "coordinator/rate_limit.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kRate = 1'000'000;

/// Takes batches of `batch` bytes for `time`; the bytes taken.
std::uint64_t TakeFor(RateLimit& limit, TimePoint begin, Duration time, std::uint64_t batch) {
  std::uint64_t taken = 0;
  for (TimePoint now = begin; now < begin + time;) {
    const Duration wait = limit.Wait(now);
    if (wait > Duration::zero()) {
      now += wait;
      continue;
    }
    limit.Take(batch, now);
    taken += batch;
  }
  return taken;
}

TEST(RateLimit, HoldsTheRateWhateverTheBatch) {
  const TimePoint begin = TimePoint() + seconds(100);
  for (const std::uint64_t batch : {1'000u, 50'000u, 4'000'000u}) {
    RateLimit limit(kRate, begin);
    const std::uint64_t taken = TakeFor(limit, begin, seconds(60), batch);
    EXPECT_GE(taken, 59 * kRate) << batch;
    EXPECT_LE(taken, 60 * kRate + kRate / 2 + batch) << batch;
  }
}

TEST(RateLimit, APauseGathersOnlyTheBurst) {
  const TimePoint begin = TimePoint() + seconds(100);
  RateLimit limit(kRate, begin);
  const TimePoint later = begin + std::chrono::hours(1);
  EXPECT_LE(TakeFor(limit, later, milliseconds(1), 1000), kRate / 2 + 3000);
}

TEST(RateLimit, WhatCostNothingIsGivenBack) {
  const TimePoint now = TimePoint() + seconds(100);
  RateLimit limit(kRate, now);
  limit.Take(10 * kRate, now);
  EXPECT_GT(limit.Wait(now), seconds(9));
  limit.GiveBack(10 * kRate);
  EXPECT_EQ(limit.Wait(now), Duration::zero());
}

TEST(RateLimit, NoLimitNeverWaits) {
  const TimePoint now = TimePoint() + seconds(100);
  RateLimit limit(0, now);
  limit.Take(UINT64_MAX / 2, now);
  EXPECT_EQ(limit.Wait(now), Duration::zero());
  EXPECT_EQ(limit.BatchBytes(77), 77u);
}

}  // namespace
}  // namespace forebay
