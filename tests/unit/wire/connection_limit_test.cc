#include "common/wire/connection_limit.h"

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
  EXPECT_EQ(ConnectionsWithin(static_cast<std::size_t>(RLIM_INFINITY)), kMostConnections);
  EXPECT_EQ(ConnectionsWithin(20'000), 10'000u);
  EXPECT_EQ(ConnectionsWithin(1024), kMaxConnections) << "as every program";
}

class OfThisProcess : public testing::Test {
 protected:
  OfThisProcess() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~OfThisProcess() override { setrlimit(RLIMIT_NOFILE, &before_); }

  rlimit before_{};
};

TEST_F(OfThisProcess, ItsConnectionsFollowFromItsDescriptorsAndWhatElseTheyAreFor) {
  rlimit wanted = before_;
  wanted.rlim_cur = 18'000;
  if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) GTEST_SKIP() << "it may not have as many";
  EXPECT_EQ(ConnectionsOfProcess(), 9'000u);
  EXPECT_EQ(ConnectionsOfProcess(8'000), 5'000u);
  EXPECT_EQ(ConnectionsOfProcess(20'000), kMaxConnections);
}

}  // namespace
}  // namespace forebay
