#include "cachenode/store/disk_health.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using namespace std::chrono_literals;

TEST(DiskHealth, ThirdErrorWithinTenSecondsIsTooMany) {
  DiskHealth health;
  TimePoint now{1000h};
  EXPECT_FALSE(health.Failed(now));
  EXPECT_FALSE(health.Failed(now += 5s));
  EXPECT_TRUE(health.Failed(now += 5s));
}

TEST(DiskHealth, RareErrorsAreForgiven) {
  DiskHealth health;
  TimePoint now{1000h};
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(health.Failed(now += 6s));
  EXPECT_FALSE(health.Failed(now += 5s));
  EXPECT_TRUE(health.Failed(now += 1s));
}

}  // namespace
}  // namespace forebay
