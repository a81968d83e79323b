#include "common/ring/fair_share.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "common/model/limits.h"

namespace forebay {
namespace {

TEST(FairShares, SumUpAndAreTheExactShareToOne) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::size_t nodes = 1 + random() % 1500;
    std::vector<std::uint64_t> weights(nodes);
    std::vector<std::uint32_t> held(nodes);
    for (std::size_t i = 0; i < nodes; ++i) {
      // From a byte to the largest number: sums must not overflow.
      weights[i] = random() >> (random() % 63);
      held[i] = static_cast<std::uint32_t>(random() % 200);
    }
    weights[0] |= 1;
    const auto shares = FairShares(weights, held);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), kPartitions);
    const long double total = std::accumulate(weights.begin(), weights.end(), 0.0L);
    for (std::size_t i = 0; i < nodes; ++i) {
      const long double exact = kPartitions * static_cast<long double>(weights[i]) / total;
      ASSERT_LT(std::abs(static_cast<long double>(shares[i]) - exact), 1.000001L);
    }
  }
}

TEST(FairShares, TheOddPartitionStaysWithItsHolder) {
  const std::vector<std::uint64_t> weights(3, 5);
  EXPECT_EQ(FairShares(weights, std::vector<std::uint32_t>{0, 0, 0}),
            (std::vector<std::uint32_t>{21846, 21845, 21845}));
  EXPECT_EQ(FairShares(weights, std::vector<std::uint32_t>{21845, 21845, 21846}),
            (std::vector<std::uint32_t>{21845, 21845, 21846}));
}

TEST(FairShares, TheExtraPartitionGoesWhereItWeighsLeast) {
  // Shares 28.09, 56.17 and 112.35: one more is 3.2 %, 1.5 % or 0.6 % too much.
  std::vector<std::uint64_t> weights;
  for (int i = 0; i < 1000; ++i) weights.push_back(std::uint64_t{1} << (i % 3));
  const auto shares = FairShares(weights, std::vector<std::uint32_t>(1000, 200));
  for (std::size_t i = 0; i < 1000; ++i) {
    if (i % 3 == 0) EXPECT_EQ(shares[i], 28u);
    if (i % 3 == 1) EXPECT_EQ(shares[i], 56u);
  }
}

TEST(FairShares, WeightZeroOwnsNothing) {
  EXPECT_EQ(FairShares(std::vector<std::uint64_t>{0, 7, 0}, std::vector<std::uint32_t>{9, 9, 9}),
            (std::vector<std::uint32_t>{0, kPartitions, 0}));
}

}  // namespace
}  // namespace forebay
