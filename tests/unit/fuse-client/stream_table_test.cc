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

TEST(StreamTable, TheWindowGrowsBlockByBlock) {
  StreamTable table;
  std::vector<std::uint64_t> furthest;
  for (std::uint64_t offset = 0; offset < 6 * kBlock; offset += kRead) {
    const BlocksAhead ahead = table.Note(7, offset, offset + kRead, kSize, kBlock);
    if (ahead.count > 0) furthest.push_back(ahead.first + ahead.count - 1);
  }
  EXPECT_EQ(furthest, (std::vector<std::uint64_t>{1, 3, 6, 7, 8, 9}));
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
