#include "common/s3/s3_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace forebay {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

LinkOrigin Place(const std::string& bucket) {
  LinkOrigin origin;
  origin.endpoint = "https://s3";
  origin.bucket = bucket;
  origin.prefix = "p/";
  return origin;
}

TEST(S3Waits, EachPlaceSaysHowManyWaitAndWhyTheOldestDoes) {
  const TimePoint now = TimePoint(seconds(1000));
  S3Waits waits;
  EXPECT_THAT(waits.All(now, 9), IsEmpty());
  std::optional<S3Waits::Place> oldest;
  oldest.emplace(waits, Place("a"), now - seconds(30));
  oldest->Note("refused");
  oldest->Note("no answer within 5 s");
  {
    S3Waits::Place younger(waits, Place("a"), now - seconds(7));
    younger.Note("no name");
    const S3Waits::Place elsewhere(waits, Place("b"), now - seconds(40));
    const std::vector<UnansweredPlace> all = waits.All(now, 9);
    ASSERT_THAT(all, SizeIs(2));
    EXPECT_EQ(all[0].bucket, "b");
    EXPECT_EQ(all[0].longest, seconds(40));
    EXPECT_EQ(all[1].calls, 2u);
    EXPECT_EQ(all[1].longest, seconds(30));
    EXPECT_EQ(all[1].why, "no answer within 5 s");
    EXPECT_EQ(all[1].prefix, "p/");
    EXPECT_EQ(all[1].endpoint, "https://s3");
    EXPECT_THAT(waits.All(now, 1), SizeIs(1));
    oldest.reset();
    EXPECT_EQ(waits.All(now, 9)[1].why, "no name");
  }
  EXPECT_THAT(waits.All(now, 9), IsEmpty()) << "all have ended";
}

}  // namespace
}  // namespace forebay
