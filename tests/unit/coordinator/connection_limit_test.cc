#include "coordinator/connection_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>

#include "common/model/limits.h"

namespace forebay {
namespace {

TEST(ConnectionLimit, ACoordinatorTakesAllMountsAndNodesThatArePlannedForIfItsDescriptorsAllow) {
  constexpr std::size_t kMounts = 10'000;  // DESIGN section 11
  constexpr std::size_t kNodes = 1'000;
  EXPECT_GT(ConnectionsWithin(1 << 20), kMounts + kNodes);
  EXPECT_EQ(ConnectionsWithin(static_cast<std::size_t>(RLIM_INFINITY)), kMaxCoordinatorConnections);
  EXPECT_EQ(ConnectionsWithin(20'000), 10'000u);
  EXPECT_EQ(ConnectionsWithin(1024), kMaxConnections) << "as every program";
  EXPECT_GE(CoordinatorConnections(), kMaxConnections);
}

}  // namespace
}  // namespace forebay
