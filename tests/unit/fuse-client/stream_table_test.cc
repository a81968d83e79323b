#include "fuse-client/stream_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace forebay {
namespace {

constexpr std::uint64_t kBlock = 4 << 20;
constexpr std::uint64_t kRead = 128ULL * 1024;
constexpr std::uint64_t kSize = 20 * kBlock;

TEST(StreamTable, AFrontToBackReaderGetsEveryLaterBlockOnceAndBeforeItComesThere) {
  StreamTable table;
  std::set<std::uint64_t> asked;
  for (std::uint64_t offset = 0; offset < kSize; offset += kRead) {
    const std::uint64_t block = offset / kBlock;
    if (block > 0) {
      EXPECT_TRUE(asked.contains(block)) << block;
    }
    const BlocksAhead ahead = table.Note(7, offset, offset + kRead, kSize, kBlock);
    EXPECT_LE(ahead.count, StreamTable::kMaxWindow);
    for (std::uint32_t i = 0; i < ahead.count; ++i) {
      EXPECT_TRUE(asked.insert(ahead.first + i).second) << ahead.first + i;
    }
  }
  EXPECT_EQ(asked.size(), 19u);
  EXPECT_EQ(*asked.rbegin(), 19u);
}

TEST(StreamTable, WhatWasNotBegunIsAnsweredAgainAndNotAtEveryRead) {
  StreamTable table;
  std::vector<std::uint64_t> begun;
  std::vector<std::uint64_t> refused_at;
  for (std::uint64_t offset = 0; offset < kSize; offset += kRead) {
    const BlocksAhead ahead = table.Note(7, offset, offset + kRead, kSize, kBlock);
    for (std::uint32_t i = 0; i < ahead.count; ++i) {
      const std::uint64_t block = ahead.first + i;
      if (offset < 5 * kBlock) {
        table.NotBegun(7, block);
        if (i == 0) refused_at.push_back(offset);
      } else {
        begun.push_back(block);
      }
    }
  }
  ASSERT_GT(refused_at.size(), 2u);
  for (std::size_t i = 1; i < refused_at.size(); ++i)
    EXPECT_GE(refused_at[i] - refused_at[i - 1], StreamTable::kStartBytes);
  ASSERT_FALSE(begun.empty());
  EXPECT_EQ(begun.front(), 6u);
  for (std::size_t i = 1; i < begun.size(); ++i) EXPECT_EQ(begun[i], begun[i - 1] + 1);
  EXPECT_EQ(begun.back(), 19u);
}

TEST(StreamTable, OnlyFromTheFirstThatWasNotBegun) {
  StreamTable table;
  std::uint64_t offset = 0;
  BlocksAhead ahead;
  while (ahead.count < 3) {
    ahead = table.Note(7, offset, offset + kRead, kSize, kBlock);
    offset += kRead;
  }
  table.NotBegun(7, ahead.first + 2);
  table.NotBegun(7, ahead.first + 1);
  table.NotBegun(8, ahead.first);  // of nobody
  BlocksAhead again;
  while (again.count == 0) {
    again = table.Note(7, offset, offset + kRead, kSize, kBlock);
    offset += kRead;
  }
  EXPECT_EQ(again.first, ahead.first + 1);
}

TEST(StreamTable, TheWindowGrowsBlockByBlock) {
  StreamTable table;
  std::vector<std::uint64_t> furthest;
  for (std::uint64_t offset = 0; offset < 6 * kBlock; offset += kRead) {
    const BlocksAhead ahead = table.Note(7, offset, offset + kRead, kSize, kBlock);
    if (ahead.count > 0) furthest.push_back(ahead.first + ahead.count - 1);
  }
  EXPECT_EQ(furthest, (std::vector<std::uint64_t>{1, 3, 6, 7, 8, 9}));
}

// A reader of one block a second, and blocks that take `fill` seconds to come. How far ahead of it
// blocks are asked for in the end, and how many of the last 20 it had to wait for.
struct Pace {
  std::uint64_t ahead = 0;
  int waited = 0;
};
Pace ReadAt(StreamTable& table, std::uint64_t blocks, double fill) {
  std::vector<double> here(blocks, -1);  // when it is, by block
  const auto read = [&](std::uint64_t block, double now) {
    const BlocksAhead ahead =
        table.Note(7, block * kBlock, (block + 1) * kBlock, blocks * kBlock, kBlock);
    for (std::uint64_t i = ahead.first; i < ahead.first + ahead.count; ++i) here[i] = now + fill;
    return ahead.count > 0 ? ahead.first + ahead.count - 1 - block : 0;
  };
  Pace pace;
  double now = 0;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::uint64_t ahead = read(block, now);
    if (block + 20 < blocks) pace.ahead = std::max(pace.ahead, ahead);
    if (here[block] < 0) here[block] = now + fill;
    if (here[block] > now) {
      table.Waited(7, block * kBlock, (block + 1) * kBlock);
      if (block + 20 >= blocks) ++pace.waited;
      now = here[block];
    }
    now += 1;
  }
  return pace;
}

TEST(StreamTable, TheWindowIsAsWideAsItsReaderNeeds) {
  for (const double fill : {0.5, 2.0, 3.5, 6.0, 11.0}) {
    StreamTable table;
    const Pace pace = ReadAt(table, 200, fill);
    SCOPED_TRACE(fill);
    EXPECT_EQ(pace.waited, 0);
    EXPECT_GE(pace.ahead, StreamTable::kUsualWindow);
    EXPECT_LE(pace.ahead, fill < 4 ? StreamTable::kUsualWindow : 16);
  }
}

TEST(StreamTable, AWindowHasABoundInBlocksAndInBytes) {
  StreamTable table;
  EXPECT_EQ(ReadAt(table, 200, 1000).ahead, StreamTable::kMaxWindow);
  StreamTable large;
  constexpr std::uint64_t kLarge = 32 << 20;
  std::uint32_t most = 0;
  for (std::uint64_t block = 0; block < 40; ++block) {
    const auto ahead = large.Note(7, block * kLarge, (block + 1) * kLarge, 40 * kLarge, kLarge);
    large.Waited(7, block * kLarge, (block + 1) * kLarge);
    most = std::max(most, ahead.count);
  }
  EXPECT_LE(most, StreamTable::kUsualWindow);
}

TEST(StreamTable, AWindowThatIsWideEnoughGetsNarrowerAgain) {
  StreamTable table;
  constexpr std::uint64_t kBlocks = 400;
  std::uint64_t until = 0;
  std::uint64_t widest = 0;
  for (std::uint64_t block = 0; block < kBlocks - 20; ++block) {
    const auto ahead =
        table.Note(7, block * kBlock, (block + 1) * kBlock, kBlocks * kBlock, kBlock);
    until = std::max(until, ahead.first + ahead.count);
    widest = std::max(widest, until - block - 1);
    if (block < 20) table.Waited(7, block * kBlock, (block + 1) * kBlock);
  }
  EXPECT_EQ(widest, StreamTable::kMaxWindow);
  // Of a window of eight blocks it had to wait.
  EXPECT_EQ(until - (kBlocks - 21) - 1, 9u);
}

TEST(StreamTable, OfAnotherPlaceNobodyWaits) {
  StreamTable table;
  std::uint64_t until = 0;
  for (std::uint64_t block = 0; block < 60; ++block) {
    const auto ahead = table.Note(7, block * kBlock, (block + 1) * kBlock, 100 * kBlock, kBlock);
    until = std::max(until, ahead.first + ahead.count);
    table.Waited(8, block * kBlock, (block + 1) * kBlock);
    table.Waited(7, 90 * kBlock, 91 * kBlock);
  }
  EXPECT_EQ(until - 60, StreamTable::kUsualWindow);
}

TEST(StreamTable, ReadsOfOneWindowMayComeInAnyOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  StreamTable table;
  std::set<std::uint64_t> asked;
  std::vector<std::uint64_t> window;
  for (std::uint64_t offset = 0; offset < kSize; offset += kRead) {
    window.push_back(offset);
    if (window.size() < 8) continue;
    std::shuffle(window.begin(), window.end(), random);
    for (const std::uint64_t at : window) {
      const BlocksAhead ahead = table.Note(7, at, at + kRead, kSize, kBlock);
      for (std::uint32_t i = 0; i < ahead.count; ++i) asked.insert(ahead.first + i);
    }
    window.clear();
  }
  EXPECT_EQ(asked.size(), 19u);
}

TEST(StreamTable, RandomReadsAskForNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  StreamTable table;
  constexpr std::uint64_t kHuge = 1ULL << 40;  // so far apart that none lies near another
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t offset = random() % (kHuge / kRead - 1) * kRead;
    EXPECT_EQ(table.Note(7, offset, offset + 4096, kHuge, kBlock), BlocksAhead{});
  }
}

TEST(StreamTable, ManyReadersKeepTheirOwnPlaces) {
  StreamTable table;
  std::vector<std::set<std::uint64_t>> asked(8);
  for (std::uint64_t offset = 0; offset < kSize; offset += kRead) {
    for (std::uint64_t reader = 0; reader < asked.size(); ++reader) {
      const BlocksAhead ahead = table.Note(reader + 2, offset, offset + kRead, kSize, kBlock);
      for (std::uint32_t i = 0; i < ahead.count; ++i) asked[reader].insert(ahead.first + i);
    }
  }
  for (const auto& blocks : asked) EXPECT_EQ(blocks.size(), 19u);
}

}  // namespace
}  // namespace forebay
