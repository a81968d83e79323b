#include "fuse-client/supervisor/restart_pace.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kNone{};

TEST(RestartPace, AWorkerThatServedForAWhileIsFollowedAtOnceHoweverOften) {
  RestartPace pace;
  TimePoint now{};
  for (int i = 0; i < 1000; ++i) {
    now += RestartPace::kSteady;
    EXPECT_EQ(pace.Died(now, RestartPace::kSteady), kNone);
    EXPECT_EQ(pace.row(), 1U);
  }
}

TEST(RestartPace, ThoseThatDieAtOnceAreFollowedLaterAndLater) {
  RestartPace pace;
  const TimePoint now{};
  for (std::size_t i = 0; i < RestartPace::kAtOnce; ++i) EXPECT_EQ(pace.Died(now, kNone), kNone);
  EXPECT_EQ(pace.Died(now, kNone), milliseconds(100));
  EXPECT_EQ(pace.Died(now, milliseconds(10)), milliseconds(200));
  EXPECT_EQ(pace.Died(now, kNone), milliseconds(400));
  Duration last{};
  for (int i = 0; i < 100; ++i) last = pace.Died(now, kNone);
  EXPECT_EQ(last, RestartPace::kLongestPause);
}

TEST(RestartPace, ReadersWaitFromTheFirstDeathOfTheRow) {
  RestartPace pace;
  const TimePoint first{seconds(100)};
  pace.Died(first, seconds(50));
  pace.Died(first + seconds(1), kNone);
  EXPECT_EQ(pace.refuse_from(), first + RestartPace::kReadersWait);
  // A worker that serves ends the row.
  const TimePoint later{seconds(200)};
  EXPECT_EQ(pace.Died(later, RestartPace::kSteady), kNone);
  EXPECT_EQ(pace.refuse_from(), later + RestartPace::kReadersWait);
}

}  // namespace
}  // namespace forebay
