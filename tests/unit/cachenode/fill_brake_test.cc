#include "cachenode/fill_brake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <vector>

#include "common/base/executors.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// How many pieces of `amount` a taker gets that asks each millisecond for `time`.
int Taken(TokenBucket& bucket, double amount, Duration time, TimePoint& now) {
  int taken = 0;
  for (const TimePoint end = now + time; now < end; now += milliseconds(1)) {
    while (bucket.Wait(now) <= Duration::zero() && taken < 1'000'000) {
      bucket.Take(amount, now);
      ++taken;
    }
  }
  return taken;
}

TEST(TokenBucket, GivesTheRateAndNotMore) {
  TokenBucket bucket;
  TimePoint now = TimePoint() + seconds(1000);
  bucket.SetRate(100, now);
  const int taken = Taken(bucket, 1, seconds(10), now);
  EXPECT_GE(taken, 1000);
  EXPECT_LE(taken, 1000 + 25 + 1);
}

TEST(TokenBucket, APieceLargerThanASecondsRatePassesAndIsPaidForAfterwards) {
  TokenBucket bucket;
  TimePoint now = TimePoint() + seconds(1000);
  bucket.SetRate(1000, now);
  EXPECT_LE(bucket.Wait(now), Duration::zero());
  bucket.Take(10'000, now);
  EXPECT_GT(bucket.Wait(now + seconds(9)), Duration::zero());
  EXPECT_LE(bucket.Wait(now + seconds(10)), Duration::zero());
}

TEST(TokenBucket, AnHourWithoutTakersDoesNotEndInABurst) {
  TokenBucket bucket;
  TimePoint now = TimePoint() + seconds(1000);
  bucket.SetRate(100, now);
  now += std::chrono::hours(1);
  EXPECT_LE(Taken(bucket, 1, seconds(1), now), 100 + 25 + 1);
}

TEST(TokenBucket, WithoutARateNothingWaits) {
  TokenBucket bucket;
  TimePoint now = TimePoint() + seconds(1000);
  bucket.Take(1e12, now);
  EXPECT_LE(bucket.Wait(now), Duration::zero());
}

TEST(TokenBucket, ALowerRateHoldsAtOnce) {
  TokenBucket bucket;
  TimePoint now = TimePoint() + seconds(1000);
  bucket.SetRate(1000, now);
  Taken(bucket, 1, seconds(1), now);
  bucket.SetRate(10, now);
  EXPECT_LE(Taken(bucket, 1, seconds(10), now), 100 + 3);
}

BlockId Block(std::uint64_t number) { return {{number, 1}, 0, 4096}; }

class FillBrakeTest : public ::testing::Test {
 protected:
  FillBrakeTest() { pool_.Start(); }
  ~FillBrakeTest() override { brake_.Close(); }

  static Task<Status> PassAndNote(FillBrake* brake, int number, Urgency urgency,
                                  std::vector<int>* order, Duration patience) {
    Status passed = co_await brake->Pass(Block(static_cast<std::uint64_t>(number)), urgency,
                                         Deadline::After(patience));
    if (passed) order->push_back(number);
    co_return passed;
  }
  std::future<Status> Pass(int number, Urgency urgency = Urgency::kReader,
                           Duration patience = seconds(20)) {
    return asio::co_spawn(pool_.At(0), PassAndNote(&brake_, number, urgency, &order_, patience),
                          asio::use_future);
  }
  /// Returns when all that was started has come as far as it can.
  void Settle() {
    asio::co_spawn(pool_.At(0), []() -> Task<void> { co_return; }, asio::use_future).get();
  }

  FillBrake brake_{"`forebay limit s3` raises it"};
  std::vector<int> order_;  // on the thread of the pool
  IoPool pool_{"brake", 1};
};

TEST_F(FillBrakeTest, WithoutLimitsEverythingPasses) {
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Pass(i).get().has_value());
  EXPECT_TRUE(brake_.Open());
  EXPECT_EQ(brake_.UseRatio(Clock::now()), 0);
}

TEST_F(FillBrakeTest, WhoPassesAtOnceIsNeverSeenToWait) {
  std::atomic<bool> ended{false};
  const auto pass_many = [](FillBrake* brake, std::atomic<bool>* over) -> Task<void> {
    for (int i = 0; i < 100'000; ++i)
      (void)co_await brake->Pass(Block(1), Urgency::kAsked, Deadline::After(seconds(20)));
    over->store(true);
  };
  auto passing = asio::co_spawn(pool_.At(0), pass_many(&brake_, &ended), asio::use_future);
  std::size_t closed = 0;
  while (!ended.load())
    if (!brake_.Open()) ++closed;
  passing.get();
  EXPECT_EQ(closed, 0u);
}

TEST_F(FillBrakeTest, APauseHoldsEverybodyAndReadersGoFirstAfterIt) {
  brake_.Set({.paused_since_unix_s = 1, .version = 1});
  EXPECT_FALSE(brake_.Open());
  std::vector<std::future<Status>> waiting;
  waiting.push_back(Pass(0, Urgency::kSpare));
  waiting.push_back(Pass(5, Urgency::kSpare));
  waiting.push_back(Pass(1, Urgency::kAsked));
  waiting.push_back(Pass(2, Urgency::kAsked));
  waiting.push_back(Pass(3));
  waiting.push_back(Pass(4));
  Settle();
  EXPECT_TRUE(order_.empty());
  brake_.Promote(Block(2), Urgency::kReader);  // a reader came for it
  brake_.Promote(Block(5), Urgency::kAsked);   // a preload wants it, too
  brake_.Set({.version = 2});
  for (auto& one : waiting) EXPECT_TRUE(one.get().has_value());
  EXPECT_EQ(order_, (std::vector<int>{3, 4, 2, 1, 5, 0}));
}

TEST_F(FillBrakeTest, WhoIsHeldTooLongIsToldWhatHeldIt) {
  brake_.Set({.paused_since_unix_s = 1, .version = 1});
  const Status held = Pass(1, Urgency::kReader, milliseconds(20)).get();
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error().code, Code::kTimeout);
  EXPECT_NE(held.error().message.find("forebay resume fills"), std::string::npos);
  brake_.Set({.bytes_per_s = 1, .version = 2});
  ASSERT_TRUE(Pass(2).get().has_value());
  const Status limited = Pass(3, Urgency::kReader, milliseconds(20)).get();
  ASSERT_FALSE(limited.has_value());
  EXPECT_NE(limited.error().message.find("forebay limit s3"), std::string::npos);
}

TEST_F(FillBrakeTest, TheOneBehindMovesUpWhenTheFirstGivesUp) {
  brake_.Set({.paused_since_unix_s = 1, .version = 1});
  std::future<Status> first = Pass(1, Urgency::kReader, milliseconds(20));
  std::future<Status> second = Pass(2);
  EXPECT_FALSE(first.get().has_value());
  brake_.Set({.version = 2});
  EXPECT_TRUE(second.get().has_value());
}

TEST_F(FillBrakeTest, ALimitInRequestsCountsRequestsAndOneInBytesBytes) {
  brake_.Set({.requests_per_s = 1e6, .version = 1});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Pass(i).get().has_value());
  EXPECT_GT(brake_.UseRatio(Clock::now()), 0);
  // 4,096 bytes at 1 B/s: the next one has an hour to wait.
  brake_.Set({.bytes_per_s = 1, .version = 2});
  ASSERT_TRUE(Pass(10).get().has_value());
  EXPECT_FALSE(brake_.Open());
  EXPECT_EQ(brake_.UseRatio(Clock::now()), 1);
}

TEST_F(FillBrakeTest, AStopLetsNobodyWait) {
  brake_.Set({.paused_since_unix_s = 1, .version = 1});
  std::future<Status> waiting = Pass(1);
  Settle();
  brake_.Close();
  EXPECT_EQ(waiting.get().error().code, Code::kUnavailable);
  EXPECT_EQ(Pass(2).get().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
