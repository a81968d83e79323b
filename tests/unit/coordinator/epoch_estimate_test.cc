#include "coordinator/epoch_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace forebay {
namespace {

class EpochEstimateTest : public ::testing::Test {
 protected:
  EpochEstimateTest() { SCOPED_TRACE(seed_); }

  /// The places 0, 8, 16 … in random order.
  std::vector<std::uint32_t> Permutation(std::uint32_t count) {
    std::vector<std::uint32_t> places(count);
    for (std::uint32_t i = 0; i < count; ++i) places[i] = i * 8;
    std::shuffle(places.begin(), places.end(), random_);
    return places;
  }

  static void Touch(EpochEstimate& estimate, const std::vector<std::uint32_t>& places) {
    for (const std::uint32_t place : places) estimate.Touch(place);
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
};

TEST_F(EpochEstimateTest, OnePassIsOneEpochAndAllOfIt) {
  for (const std::uint32_t blocks : {1U, 2U, 5U, 100U, 1000U}) {
    EpochEstimate estimate(blocks);
    Touch(estimate, Permutation(blocks));
    EXPECT_EQ(estimate.epoch(), 1u) << blocks;
    EXPECT_NEAR(estimate.progress(), 1, 0.01) << blocks;
  }
}

TEST_F(EpochEstimateTest, CleanPassesAreCountedOneByOne) {
  constexpr std::uint32_t kBlocks = 2000;
  EpochEstimate estimate(kBlocks);
  for (std::uint64_t pass = 1; pass <= 20; ++pass) {
    const std::vector<std::uint32_t> order = Permutation(kBlocks);
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      estimate.Touch(order[i]);
      if (i != kBlocks / 2) continue;
      EXPECT_EQ(estimate.epoch(), pass);
      EXPECT_NEAR(estimate.progress(), 0.5, 0.03);
    }
    EXPECT_EQ(estimate.epoch(), pass) << "a pass that is complete is still the same epoch";
    EXPECT_GT(estimate.progress(), 0.97);
  }
}

TEST_F(EpochEstimateTest, AFewBlocksThatComeAgainEarlyChangeNothing) {
  constexpr std::uint32_t kBlocks = 2000;
  EpochEstimate estimate(kBlocks);
  for (std::uint64_t pass = 1; pass <= 5; ++pass) {
    const std::vector<std::uint32_t> order = Permutation(kBlocks);
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      estimate.Touch(order[i]);
      if (i > 50 && i % 100 == 0) estimate.Touch(order[random_() % i]);
    }
    EXPECT_EQ(estimate.epoch(), pass);
  }
}

TEST_F(EpochEstimateTest, AValidationSetReadSeveralTimesIsNoEpoch) {
  constexpr std::uint32_t kBlocks = 2000;
  std::vector<std::uint32_t> all = Permutation(kBlocks);
  const std::vector<std::uint32_t> validation(all.begin(), all.begin() + 80);
  std::vector<std::uint32_t> training(all.begin() + 80, all.end());
  EpochEstimate estimate(kBlocks);
  for (std::uint64_t pass = 1; pass <= 5; ++pass) {
    std::shuffle(training.begin(), training.end(), random_);
    for (std::size_t i = 0; i < training.size(); ++i) {
      estimate.Touch(training[i]);
      if ((i + 1) % (training.size() / 4) == 0) Touch(estimate, validation);
      if (i != training.size() * 6 / 10) continue;
      EXPECT_EQ(estimate.epoch(), pass) << "in the middle of the pass";
    }
  }
}

TEST_F(EpochEstimateTest, AJobThatReadsAPartOfTheLinkHasEpochsOfThatPart) {
  EpochEstimate estimate(4000);
  for (std::uint64_t pass = 1; pass <= 6; ++pass) {
    std::vector<std::uint32_t> order = Permutation(1000);
    for (std::size_t i = 0; i < order.size(); ++i) {
      estimate.Touch(order[i]);
      if (i != 500) continue;
      EXPECT_EQ(estimate.epoch(), pass);
      EXPECT_NEAR(estimate.progress(), pass == 1 ? 0.125 : 0.5, 0.03);
    }
  }
}

TEST_F(EpochEstimateTest, GoesOnFromAnEpochThatIsKnown) {
  EpochEstimate estimate(10, 7);
  EXPECT_EQ(estimate.epoch(), 7u);
  EXPECT_EQ(estimate.progress(), 0);
}

}  // namespace
}  // namespace forebay
