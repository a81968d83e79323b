#include "common/s3/retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace forebay {
namespace {

using namespace std::chrono_literals;

const TimePoint kStart{};
const Deadline kFar{kStart + 1h};

Duration MustWait(RetrySchedule& schedule, RetryReason reason, TimePoint now = kStart) {
  const std::optional<Duration> wait = schedule.Next(reason, now);
  EXPECT_TRUE(wait.has_value());
  return wait.value_or(-1s);
}

TEST(RetrySchedule, DoublesFromItsBaseUpToItsCap) {
  RetryTokens tokens;
  RetrySchedule schedule({}, tokens, kFar, [] { return 0.5; });
  std::vector<Duration> waits;
  waits.reserve(11);
  for (int i = 0; i < 11; ++i) waits.push_back(MustWait(schedule, RetryReason::kServerError));
  const std::vector<Duration> expected = {25ms,   50ms,   100ms,  200ms, 400ms, 800ms,
                                          1600ms, 3200ms, 6400ms, 10s,   10s};
  EXPECT_EQ(waits, expected);
}

TEST(RetrySchedule, ThrottlingBeginsAtOneSecond) {
  RetryTokens tokens;
  RetrySchedule schedule({}, tokens, kFar, [] { return 0.5; });
  EXPECT_EQ(MustWait(schedule, RetryReason::kThrottled), 500ms);
  EXPECT_EQ(MustWait(schedule, RetryReason::kThrottled), 1s);
}

TEST(RetrySchedule, JitterIsFull) {
  RetryTokens tokens;
  double next = 0;
  RetrySchedule schedule({}, tokens, kFar, [&] { return next; });
  EXPECT_EQ(MustWait(schedule, RetryReason::kNetwork), 0ms);
  next = 0.99;
  EXPECT_EQ(MustWait(schedule, RetryReason::kNetwork), 99ms);
}

TEST(RetrySchedule, EndsWhenTheNextAttemptWouldBeginTooLate) {
  RetryTokens tokens;
  RetrySchedule schedule({}, tokens, Deadline(kStart + 600ms), [] { return 0.5; });
  EXPECT_EQ(MustWait(schedule, RetryReason::kThrottled), 500ms);
  EXPECT_EQ(schedule.Next(RetryReason::kThrottled, kStart + 500ms), std::nullopt);
  EXPECT_EQ(tokens.left(), RetryTokens::kCapacity - RetryTokens::kRetryCost)
      << "a retry that is not made costs nothing";
}

TEST(RetrySchedule, AnEmptyBucketSlowsRetriesDownAndNeverEndsThem) {
  RetryTokens tokens;
  while (tokens.Take()) {
  }
  RetrySchedule schedule({}, tokens, kFar, [] { return 0.0; });
  EXPECT_EQ(MustWait(schedule, RetryReason::kNetwork), 5s);
  EXPECT_EQ(MustWait(schedule, RetryReason::kNetwork), 5s);
  schedule.Succeeded();
  EXPECT_EQ(tokens.left(), 0) << "what was not paid is not refunded";
}

TEST(RetryTokens, OfARetryThatIsNotMadeComeBackOnce) {
  RetryTokens tokens;
  RetrySchedule schedule({}, tokens, kFar, [] { return 0.0; });
  schedule.Next(RetryReason::kNetwork, kStart);
  EXPECT_EQ(tokens.left(), 495);
  schedule.Drop();
  schedule.Drop();
  EXPECT_EQ(tokens.left(), 500);
}

TEST(RetryTokens, PayForRetriesAndComeBackWithSuccess) {
  RetryTokens tokens;
  RetrySchedule retried({}, tokens, kFar, [] { return 0.0; });
  retried.Next(RetryReason::kNetwork, kStart);
  retried.Next(RetryReason::kNetwork, kStart);
  EXPECT_EQ(tokens.left(), 490);
  retried.Succeeded();
  EXPECT_EQ(tokens.left(), 495) << "the last retry is refunded";
  RetrySchedule first_time({}, tokens, kFar, [] { return 0.0; });
  first_time.Succeeded();
  EXPECT_EQ(tokens.left(), 496);
  tokens.GiveBack(100);
  EXPECT_EQ(tokens.left(), RetryTokens::kCapacity);
}

}  // namespace
}  // namespace forebay
