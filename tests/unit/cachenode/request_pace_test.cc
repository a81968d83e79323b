#include "cachenode/request_pace.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using namespace std::chrono_literals;

class RequestPaceTest : public testing::Test {
 protected:
  /// So many answers, evenly over a second.
  void Answer(int per_second) {
    for (int i = 0; i < per_second; ++i) {
      now_ += std::chrono::duration_cast<Duration>(1s) / per_second;
      pace_.Answered(now_);
    }
  }
  TimePoint now_ = TimePoint() + 1h;
  RequestPace pace_;
};

TEST_F(RequestPaceTest, ThereIsNoLimitUntilS3Refuses) {
  Answer(1000);
  EXPECT_EQ(pace_.Limit(now_), 0);
  pace_.Lease(std::nullopt, now_);
  EXPECT_EQ(pace_.Limit(now_), 0);
}

TEST_F(RequestPaceTest, TheFirstRefusalHalvesAtOnceAndIsNews) {
  Answer(1000);
  EXPECT_TRUE(pace_.Throttled(now_));
  EXPECT_NEAR(pace_.Limit(now_), 500, 20);
  EXPECT_FALSE(pace_.Throttled(now_)) << "a hundred of them at once are one";
  EXPECT_NEAR(pace_.Limit(now_), 500, 20);
  pace_.Lease(std::nullopt, now_);
  EXPECT_NEAR(pace_.Limit(now_), 500, 20) << "the coordinator does not know of it yet";
}

TEST_F(RequestPaceTest, ALeaseCountsWhileTheCoordinatorSaysIt) {
  Answer(100);
  (void)pace_.Throttled(now_);
  pace_.Lease(80, now_);
  EXPECT_EQ(pace_.Limit(now_), 80);
  (void)pace_.Throttled(now_);
  EXPECT_EQ(pace_.Limit(now_), 80) << "the coordinator hears of it and decides";
  now_ += RequestPace::kLeaseHolds;
  EXPECT_EQ(pace_.Limit(now_), 80);
  pace_.Lease(std::nullopt, now_ + 1s);
  EXPECT_EQ(pace_.Limit(now_ + 1s), 0) << "it is over";
}

TEST_F(RequestPaceTest, WithoutACoordinatorTheLeaseIsWhereItGoesOnFrom) {
  Answer(100);
  (void)pace_.Throttled(now_);
  pace_.Lease(80, now_);
  for (int second = 0; second < 5; ++second) Answer(80);
  const double grown = pace_.Limit(now_);
  EXPECT_GT(grown, 80);
  EXPECT_LE(grown, 80 * 1.6);
  (void)pace_.Throttled(now_);
  EXPECT_NEAR(pace_.Limit(now_), 40, 15);
  now_ += 1s;
  for (int i = 0; i < 40; ++i) {
    now_ += 1s;
    (void)pace_.Throttled(now_);
  }
  EXPECT_GE(pace_.Limit(now_), RequestPace::kLeast) << "it goes on asking whether it is over";
}

}  // namespace
}  // namespace forebay
