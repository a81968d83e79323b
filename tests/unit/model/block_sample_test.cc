#include "common/model/block_sample.h"

#include <gtest/gtest.h>

#include <bitset>
#include <memory>

namespace forebay {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Block `number` of a link whose objects have four blocks each.
BlockId Block(std::uint64_t number) {
  return BlockId{.version = {.high = 1, .low = (number / 4 + 1) * 0xD6E8FEB86659FD93ULL},
                 .offset = (number % 4) * 4 * kMiB,
                 .length = 4 * kMiB};
}

TEST(BlockSample, OfASmallLinkIsEveryBlock) {
  const BlockSample sample(BlockSample::kSampledBlocks);
  auto places = std::make_unique<std::bitset<BlockSample::kPlaces>>();
  for (std::uint64_t i = 0; i < BlockSample::kSampledBlocks; ++i) {
    const std::optional<std::uint32_t> place = sample.PlaceOf(Block(i));
    ASSERT_TRUE(place.has_value());
    ASSERT_LT(*place, BlockSample::kPlaces);
    places->set(*place);
  }
  EXPECT_EQ(sample.size(), 8192);
  EXPECT_LT(places->count(), 8192u) << "some share a place";
  EXPECT_NEAR(BlockSample::DistinctAt(static_cast<std::uint32_t>(places->count())), 8192, 82);
}

TEST(BlockSample, OfALargeLinkIsAFixedShare) {
  constexpr std::uint64_t kBlocks = 1'000'000;
  const BlockSample sample(kBlocks);
  std::uint64_t chosen = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    chosen += sample.PlaceOf(Block(i)).has_value() ? 1 : 0;
  EXPECT_GT(sample.size(), BlockSample::kSampledBlocks / 2);
  EXPECT_LE(sample.size(), BlockSample::kSampledBlocks);
  EXPECT_NEAR(static_cast<double>(chosen), sample.size(), sample.size() * 0.05);
}

TEST(BlockSample, ASmallNumberIsCountedAsItIs) {
  EXPECT_EQ(BlockSample::DistinctAt(0), 0);
  EXPECT_NEAR(BlockSample::DistinctAt(100), 100, 0.1);
}

}  // namespace
}  // namespace forebay
