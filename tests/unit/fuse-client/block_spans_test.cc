#include "fuse-client/block_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/model/limits.h"

namespace forebay {
namespace {

constexpr ObjectVersion kVersion{1, 2};
constexpr std::uint64_t kBlock = 1 << 20;

TEST(CutSpans, ASmallFileIsOneSpanOfItsOnlyBlock) {
  const auto spans = CutSpans(kVersion, 40'000, kBlock, 0, 131'072);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0], (BlockSpan{{kVersion, 0, 40'000}, {0, 40'000}}));
}

TEST(CutSpans, NothingIsLeftOfReadsThatTouchNoByte) {
  EXPECT_TRUE(CutSpans(kVersion, 0, kBlock, 0, 4096).empty());
  EXPECT_TRUE(CutSpans(kVersion, 100, kBlock, 100, 4096).empty());
  EXPECT_TRUE(CutSpans(kVersion, 100, kBlock, 5000, 4096).empty());
  EXPECT_TRUE(CutSpans(kVersion, 100, kBlock, 50, 0).empty());
}

TEST(CutSpans, AReadOverABlocksEndIsSplitThere) {
  const auto spans = CutSpans(kVersion, 3 * kBlock + 7, kBlock, kBlock - 10, kBlock + 30);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].range, (BlockRange{kBlock - 10, kBlock}));
  EXPECT_EQ(spans[1].block, (BlockId{kVersion, kBlock, kBlock}));
  EXPECT_EQ(spans[1].range, (BlockRange{0, kBlock}));
  EXPECT_EQ(spans[2].range, (BlockRange{0, 20}));
}

TEST(CutSpans, OfALongBlockThereAreAsManyAsANodeMayBeAskedForAtOnce) {
  constexpr std::uint64_t kLong = kMaxBlockBytes;
  const auto spans = CutSpans(kVersion, 2 * kLong, kLong, 100, 2 * kLong);
  std::uint64_t at = 100;
  for (const BlockSpan& span : spans) {
    EXPECT_EQ(span.block.length, kLong);
    EXPECT_EQ(span.block.offset + span.range.begin, at);
    EXPECT_LE(EnclosingCells(span.range, span.block.length).size(), kMaxPayloadBytes);
    at += span.range.size();
  }
  EXPECT_EQ(at, 2 * kLong);
  EXPECT_EQ(spans.size(), 8u);
}

TEST(CutSpans, OffsetsNearTheEndOf64BitsDoNotOverflow) {
  EXPECT_TRUE(CutSpans(kVersion, 100, kBlock, ~std::uint64_t{0}, 4096).empty());
  const auto spans = CutSpans(kVersion, 100, kBlock, 10, ~std::uint64_t{0});
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].range, (BlockRange{10, 100}));
}

TEST(CutSpans, TogetherTheyCoverExactlyWhatWasAsked) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t size = random() % (5 * kBlock);
    const std::uint64_t offset = random() % (6 * kBlock);
    const std::uint64_t length = random() % (2 * kBlock);
    std::uint64_t at = offset;
    for (const BlockSpan& span : CutSpans(kVersion, size, kBlock, offset, length)) {
      EXPECT_EQ(span.block.offset % kBlock, 0u);
      EXPECT_LE(span.block.offset + span.block.length, size);
      EXPECT_EQ(span.block.offset + span.range.begin, at);
      EXPECT_LT(span.range.begin, span.range.end);
      EXPECT_LE(span.range.end, span.block.length);
      at += span.range.size();
    }
    const std::uint64_t end = std::min(offset + length, std::max(size, offset));
    EXPECT_EQ(at, end);
  }
}

}  // namespace
}  // namespace forebay
