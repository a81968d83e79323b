// What FAULTS promises of a throttling S3, with 16 nodes, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/component/throttling/throttled_cluster.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

class RequestBudget : public testing::TestWithParam<std::uint64_t> {
 protected:
  ThrottledCluster cluster_{{.seed = GetParam()}};
};

TEST_P(RequestBudget, NobodyIsHeldBackWhereS3RefusesNothing) {
  EXPECT_GE(cluster_.RateOver(20s), 0.9 * 16 * 64 / 0.1);
  EXPECT_FALSE(cluster_.limit());
  EXPECT_EQ(cluster_.requests() - cluster_.answered(), 16U * 64) << "those under way";
}

TEST_P(RequestBudget, ALimitedOriginIsUsedWellAndAskedLittleMore) {
  cluster_.LimitOrigin(1000);
  cluster_.Run(60s);
  ASSERT_TRUE(cluster_.limit());
  EXPECT_GE(cluster_.answered(), 0.8 * 60 * 1000);
  EXPECT_LE(cluster_.requests(), 1.2 * static_cast<double>(cluster_.answered()));
  std::vector<std::uint64_t> answered;
  answered.reserve(16);
  for (std::size_t i = 0; i < 16; ++i) answered.push_back(cluster_.answered(i));
  const auto [least, most] = std::ranges::minmax(answered);
  EXPECT_GE(static_cast<double>(least), 0.75 * static_cast<double>(most)) << "a fair share each";
}

TEST_P(RequestBudget, AMinuteWithHalfOfAllRequestsRefusedCostsLittleAndIsOverInTenSeconds) {
  cluster_.LimitOrigin(3000);
  cluster_.Run(40s);
  const double before = cluster_.RateOver(10s);
  const std::uint64_t requests = cluster_.requests();
  const std::uint64_t answered = cluster_.answered();
  cluster_.RefuseHalf(true);
  cluster_.Run(60s);
  cluster_.RefuseHalf(false);
  cluster_.Run(10s);
  EXPECT_GE(cluster_.RateOver(10s), 0.9 * before);
  const auto made = static_cast<double>(cluster_.requests() - requests);
  const auto needed = static_cast<double>(cluster_.answered() - answered);
  EXPECT_LE(made, 1.2 * needed);
}

TEST_P(RequestBudget, AnOriginThatGetsTenTimesFasterIsUsedWithinTenSeconds) {
  cluster_.LimitOrigin(400);
  cluster_.Run(60s);
  cluster_.LimitOrigin(4000);
  cluster_.Run(10s);
  EXPECT_GE(cluster_.RateOver(5s), 0.7 * 4000) << "at or just behind its first cut";
  cluster_.LimitOrigin(0);
  cluster_.Run(30s);
  EXPECT_GE(cluster_.RateOver(5s), 0.9 * 16 * 64 / 0.1);
}

TEST_P(RequestBudget, WhoWantsLittleGetsItAndTheRestIsForTheOthers) {
  cluster_.LimitOrigin(1000);
  for (std::size_t i = 0; i < 14; ++i) cluster_.SetWanted(i, 10);
  cluster_.Run(20s);
  std::vector<std::uint64_t> before;
  before.reserve(16);
  for (std::size_t i = 0; i < 16; ++i) before.push_back(cluster_.answered(i));
  cluster_.Run(30s);
  const auto rate = [&](std::size_t i) {
    return static_cast<double>(cluster_.answered(i) - before[i]) / 30;
  };
  for (std::size_t i = 0; i < 14; ++i) EXPECT_GE(rate(i), 9) << i;
  EXPECT_GE(rate(14) + rate(15), 0.8 * (1000 - 14 * 10));
  EXPECT_GE(std::min(rate(14), rate(15)), 0.75 * std::max(rate(14), rate(15)));
}

TEST_P(RequestBudget, WithoutACoordinatorTheSharesStayAndAreFollowed) {
  cluster_.LimitOrigin(1000);
  cluster_.Run(30s);
  cluster_.SetCoordinatorAway(true);
  cluster_.Run(5s);
  const std::uint64_t requests = cluster_.requests();
  const std::uint64_t answered = cluster_.answered();
  cluster_.Run(60s);
  const auto made = static_cast<double>(cluster_.requests() - requests);
  const auto needed = static_cast<double>(cluster_.answered() - answered);
  EXPECT_GE(needed, 0.5 * 60 * 1000);
  EXPECT_LE(made, 1.4 * needed) << "each node goes by what S3 says to it alone";
  cluster_.SetCoordinatorAway(false);
  cluster_.Run(20s);
  EXPECT_GE(cluster_.RateOver(20s), 0.8 * 1000);
}

TEST_P(RequestBudget, ALimitThatNobodyFeelsGoes) {
  cluster_.LimitOrigin(1000);
  cluster_.Run(20s);
  ASSERT_TRUE(cluster_.limit());
  cluster_.LimitOrigin(0);
  for (std::size_t i = 0; i < 16; ++i) cluster_.SetWanted(i, 5);
  cluster_.Run(60s);
  EXPECT_FALSE(cluster_.limit());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RequestBudget, testing::Values(1, 2, 3));

TEST(FairShares, TheWholeIsGivenAndNobodyTakesWhatAnotherOneWants) {
  const auto near = [](const std::vector<double>& got, const std::vector<double>& due) {
    for (std::size_t i = 0; i < due.size(); ++i) EXPECT_NEAR(got[i], due[i], 1e-9) << i;
  };
  near(FairShares(90, {100, 100, 100}), {30, 30, 30});
  near(FairShares(100, {10, 100, 100}), {10, 45, 45});
  near(FairShares(100, {10, 20, 100}), {10, 20, 70});
  near(FairShares(100, {10, 20, 40}), {20, 30, 50});
  near(FairShares(100, {0, 0}), {50, 50});
}

}  // namespace
}  // namespace forebay
