#include "cachenode/store/disk_probation.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

/// A disk that is out of service at `now`, probed whenever that is due; answers when it comes back.
TimePoint ServeTime(DiskProbation& probation, TimePoint now) {
  for (const TimePoint end = now + hours(1); now < end; now += seconds(1)) {
    if (probation.Due(now) && probation.Probed(true, now)) return now;
  }
  return {};
}

TEST(DiskProbation, DiskComesBackAfterThreeCleanProbesFiveSecondsApart) {
  DiskProbation probation;
  TimePoint now = TimePoint() + hours(1000);
  EXPECT_FALSE(probation.Due(now)) << "it has just failed";
  EXPECT_FALSE(probation.Due(now + seconds(4)));
  now += seconds(5);
  ASSERT_TRUE(probation.Due(now));
  EXPECT_FALSE(probation.Probed(true, now));
  EXPECT_FALSE(probation.Due(now + seconds(4)));
  now += seconds(5);
  ASSERT_TRUE(probation.Due(now));
  EXPECT_FALSE(probation.Probed(true, now));
  now += seconds(5);
  ASSERT_TRUE(probation.Due(now));
  EXPECT_TRUE(probation.Probed(true, now));
}

TEST(DiskProbation, AFailedProbeBeginsTheCountAnew) {
  DiskProbation probation;
  TimePoint now = TimePoint() + hours(1000);
  EXPECT_FALSE(probation.Due(now));
  for (const bool clean : {true, true, false, true, true}) {
    now += seconds(5);
    ASSERT_TRUE(probation.Due(now));
    EXPECT_FALSE(probation.Probed(clean, now));
  }
  now += seconds(5);
  ASSERT_TRUE(probation.Due(now));
  EXPECT_TRUE(probation.Probed(true, now));
}

TEST(DiskProbation, ADiskThatFailsAgainSoonProvesItselfTwiceAsLongUpToABound) {
  DiskProbation probation;
  TimePoint now = TimePoint() + hours(1000);
  seconds expected(15);
  for (int relapse = 0; relapse < 10; ++relapse) {
    const TimePoint back = ServeTime(probation, now);
    EXPECT_EQ(back - now, expected) << relapse;
    now = back + seconds(1);
    expected = std::min(2 * expected, seconds(5 * DiskProbation::kMostProbes));
  }
  now += hours(1);
  EXPECT_EQ(ServeTime(probation, now) - now, seconds(15)) << "long ago is forgiven";
}

}  // namespace
}  // namespace forebay
