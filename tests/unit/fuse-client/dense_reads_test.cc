#include "fuse-client/dense_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "common/model/read_through.h"
#include "fuse-client/block_spans.h"

namespace forebay {
namespace {

constexpr std::uint64_t kBlock = 4ULL << 20;
constexpr std::uint64_t kKernelRead = 128ULL << 10;
constexpr std::uint64_t kMiB = 1ULL << 20;

class DenseReadsTest : public ::testing::Test {
 protected:
  /// As the kernel asks for it: in pieces.
  void Read(std::uint64_t object, std::uint64_t size, std::uint64_t offset, std::uint64_t bytes,
            std::uint64_t piece = kKernelRead) {
    const ObjectVersion version{.high = 1, .low = (object + 1) * 0x9E3779B97F4A7C15ULL};
    const std::uint64_t end = std::min(size, offset + bytes);
    for (std::uint64_t at = offset; at < end; at += piece) {
      for (const BlockSpan& span : CutSpans(version, size, kBlock, at, std::min(piece, end - at))) {
        reads_.Note(span.block, span.range, size, kBlock, now_);
      }
    }
  }
  std::size_t Count() {
    const std::vector<std::uint64_t> blocks = reads_.Recent(now_);
    return std::set(blocks.begin(), blocks.end()).size();
  }

  DenseReads reads_;
  TimePoint now_ = Clock::now();
};

TEST_F(DenseReadsTest, ASmallFileIsABlockHoweverOftenItIsRead) {
  for (int pass = 0; pass < 4; ++pass) {
    for (std::uint64_t file = 0; file < 300; ++file) Read(file, 39'000 + file, 0, 1 << 20);
  }
  EXPECT_EQ(Count(), 300u);
  EXPECT_EQ(reads_.size(), 300u) << "and is said once";
}

TEST_F(DenseReadsTest, RecordsOutOfManyLargeShardsCountForNothing) {
  // 1,474 shards of 1.5 GB, 0.05 % of each.
  constexpr std::uint64_t kShard = 1'500'000'000;
  std::mt19937_64 random(7);
  for (std::uint64_t shard = 0; shard < 1474; ++shard) {
    Read(shard, kShard, random() % (kShard - 750'000), 750'000);
  }
  EXPECT_EQ(Count(), 0u);
  // Even where that happens to be whole blocks, which it is for blocks of 256 KiB.
  DenseReads small;
  for (std::uint64_t shard = 0; shard < 1474; ++shard) {
    const ObjectVersion version{.high = 1, .low = (shard + 1) * 0x9E3779B97F4A7C15ULL};
    for (const BlockSpan& span : CutSpans(version, kShard, 256 << 10, 10 * kMiB, 750'000)) {
      small.Note(span.block, span.range, kShard, 256 << 10, now_);
    }
  }
  EXPECT_EQ(small.size(), 0u);
}

TEST_F(DenseReadsTest, AShardThatIsReadThroughCountsOnceASixteenthOfItWas) {
  constexpr std::uint64_t kShard = 512 * kBlock;
  Read(1, kShard, 0, 31 * kBlock);
  EXPECT_EQ(Count(), 0u);
  Read(1, kShard, 31 * kBlock, kBlock);
  EXPECT_EQ(Count(), 32u);
  Read(1, kShard, 32 * kBlock, 100 * kBlock);
  EXPECT_EQ(Count(), 132u);
}

TEST_F(DenseReadsTest, ABlockCountsWhenHalfOfItWasAskedFor) {
  Read(1, kBlock, 0, kBlock / 2 - kKernelRead);
  EXPECT_EQ(Count(), 0u);
  Read(1, kBlock, 0, kBlock / 2 - kKernelRead);
  EXPECT_EQ(Count(), 0u) << "the same bytes again are no others";
  Read(1, kBlock, kBlock / 2 - kKernelRead, kKernelRead);
  EXPECT_EQ(Count(), 1u);
  Read(1, kBlock, 0, kBlock);
  EXPECT_EQ(reads_.size(), 1u);
}

TEST_F(DenseReadsTest, SmallReadsAtRandomPlacesCountByTheirBytes) {
  std::mt19937_64 random(11);
  // A tenth of the bytes of 8 blocks, in pages.
  for (int i = 0; i < 800; ++i) Read(1, 8 * kBlock, (random() % 8192) * 4096, 4096, 4096);
  EXPECT_EQ(Count(), 0u);
  for (std::uint64_t at = 0; at < 8 * kBlock; at += 4096) Read(1, 8 * kBlock, at, 4096, 4096);
  EXPECT_EQ(Count(), 8u);
}

TEST_F(DenseReadsTest, OnlyTheLastMinuteCounts) {
  for (std::uint64_t file = 0; file < 100; ++file) {
    Read(file, 40'000, 0, 40'000);
    now_ += std::chrono::seconds(6);
  }
  EXPECT_EQ(Count(), 10u);
  now_ += std::chrono::minutes(2);
  EXPECT_EQ(Count(), 0u);
  // A shard that is read so slowly that it never is in one minute.
  for (std::uint64_t block = 0; block < 64; ++block) {
    Read(1000, 512 * kBlock, block * kBlock, kBlock);
    now_ += std::chrono::seconds(10);
  }
  EXPECT_EQ(Count(), 0u);
}

TEST_F(DenseReadsTest, WhatWasConfirmedIsNotSaidAgainAndMemoryIsBounded) {
  for (std::uint64_t file = 0; file < 300; ++file) Read(file, 40'000, 0, 40'000);
  const std::vector<std::uint64_t> all = reads_.Recent(now_);
  reads_.Drop(200);
  EXPECT_EQ(reads_.Recent(now_), std::vector<std::uint64_t>(all.begin() + 200, all.end()));
  for (std::uint64_t file = 300; file < 50'000; ++file) Read(file, 40'000, 0, 40'000);
  EXPECT_EQ(Count(), DenseReads::kMostCounted);
  reads_.Clear();
  EXPECT_EQ(Count(), 0u);
}

TEST(ReadThrough, IsAThousandBlocksOrAPercentAndSomeOfASmallLink) {
  EXPECT_EQ(BlocksOfReadThrough(0), 0u) << "never";
  EXPECT_EQ(BlocksOfReadThrough(3), 3u);
  EXPECT_EQ(BlocksOfReadThrough(64), 64u);
  EXPECT_EQ(BlocksOfReadThrough(6'400), 64u);
  EXPECT_EQ(BlocksOfReadThrough(50'000), 500u);
  EXPECT_EQ(BlocksOfReadThrough(100'000), 1000u);
  EXPECT_EQ(BlocksOfReadThrough(1'000'000'000), 1000u);
}

}  // namespace
}  // namespace forebay
