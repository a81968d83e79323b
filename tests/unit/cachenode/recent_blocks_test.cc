#include "cachenode/recent_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace forebay {
namespace {

constexpr std::uint32_t kLength = 2 * kCellBytes;

const Uuid kLink = Uuid::Random();

BlockId BlockNumber(std::uint64_t number) {
  BlockId block;
  block.version.low = number;
  block.length = kLength;
  return block;
}

std::shared_ptr<const Fill> Filled(std::uint64_t number) {
  auto fill = std::make_shared<Fill>(BlockNumber(number));
  Buffer bytes(kLength);
  std::fill_n(bytes.data(), bytes.size(), static_cast<std::byte>(number));
  fill->OnAttempt();
  fill->OnData(bytes.view());
  EXPECT_TRUE(fill->Finish(Status()).has_value());
  return fill;
}

TEST(RecentBlocks, ServesWhatWasAddedAsLocalBytes) {
  RecentBlocks recent(10ULL * kLength);
  recent.Add(kLink, Filled(1));
  const std::optional<Cells> cells = recent.Read(BlockNumber(1), {kCellBytes, kCellBytes + 1});
  ASSERT_TRUE(cells.has_value());
  EXPECT_EQ(cells->begin, kCellBytes);
  EXPECT_EQ(cells->bytes.bytes.front(), std::byte{1});
  EXPECT_EQ(cells->tier, Tier::kLocal);
  EXPECT_TRUE(cells->Verify());
  EXPECT_FALSE(recent.Read(BlockNumber(2), {0, 1}).has_value());
}

TEST(RecentBlocks, TheLeastRecentlyUsedGoesFirst) {
  RecentBlocks recent(2ULL * kLength);
  recent.Add(kLink, Filled(1));
  recent.Add(kLink, Filled(2));
  EXPECT_TRUE(recent.Read(BlockNumber(1), {0, 1}).has_value());
  recent.Add(kLink, Filled(3));
  EXPECT_TRUE(recent.Contains(BlockNumber(1)));
  EXPECT_FALSE(recent.Contains(BlockNumber(2)));
  EXPECT_TRUE(recent.Contains(BlockNumber(3)));
  EXPECT_EQ(recent.bytes(), 2 * kLength);
}

void ReadAll(RecentBlocks& recent, std::uint64_t number) {
  EXPECT_TRUE(recent.Read(BlockNumber(number), {0, kCellBytes}).has_value());
  EXPECT_TRUE(recent.Read(BlockNumber(number), {kCellBytes, kLength}).has_value());
}

TEST(RecentBlocks, WhatWasReadThroughGoesBeforeWhatIsStillToBeRead) {
  RecentBlocks recent(3ULL * kLength);
  recent.Add(kLink, Filled(1));  // that a reader is in the middle of
  recent.Add(kLink, Filled(2));  // that comes ahead of it
  recent.Add(kLink, Filled(3));
  EXPECT_TRUE(recent.Read(BlockNumber(1), {0, kCellBytes}).has_value());
  ReadAll(recent, 3);
  recent.Add(kLink, Filled(4));
  EXPECT_TRUE(recent.Contains(BlockNumber(1)));
  EXPECT_TRUE(recent.Contains(BlockNumber(2)));
  EXPECT_FALSE(recent.Contains(BlockNumber(3)));
  EXPECT_TRUE(recent.Contains(BlockNumber(4)));
}

TEST(RecentBlocks, WhatWasReadThroughWhileItCameGoesFirst) {
  RecentBlocks recent(2ULL * kLength);
  const auto read = Filled(1);
  EXPECT_TRUE(read->TryRead({0, kLength}).has_value());
  recent.Add(kLink, read);
  recent.Add(kLink, Filled(2));
  recent.Add(kLink, Filled(3));
  EXPECT_FALSE(recent.Contains(BlockNumber(1)));
  EXPECT_TRUE(recent.Contains(BlockNumber(2)));
}

// Many who waited for it have read it, and another one has just begun.
TEST(RecentBlocks, ManyReadersDoNotMakeALaterOneSeemToBeAtItsEnd) {
  RecentBlocks recent(2ULL * kLength);
  const auto herd = Filled(1);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(herd->TryRead({0, kLength}).has_value());
  recent.Add(kLink, herd);
  recent.Add(kLink, Filled(2));
  EXPECT_TRUE(recent.Read(BlockNumber(1), {0, kCellBytes}).has_value());
  recent.Add(kLink, Filled(3));
  EXPECT_TRUE(recent.Contains(BlockNumber(1)));
  EXPECT_FALSE(recent.Contains(BlockNumber(2)));
}

TEST(RecentBlocks, AQuarterIsForThoseWhoComeALittleLater) {
  RecentBlocks recent(4ULL * kLength);
  for (std::uint64_t number = 1; number <= 4; ++number) recent.Add(kLink, Filled(number));
  ReadAll(recent, 2);
  for (std::uint64_t number = 5; number <= 9; ++number) recent.Add(kLink, Filled(number));
  EXPECT_TRUE(recent.Contains(BlockNumber(2))) << "others may be a little behind its reader";
  EXPECT_TRUE(recent.Contains(BlockNumber(9)));
  EXPECT_FALSE(recent.Contains(BlockNumber(5)));
}

// Small files, each of one block that is read at once.
TEST(RecentBlocks, WhereAllIsReadThroughItHasAllTheRoom) {
  RecentBlocks recent(4ULL * kLength);
  for (std::uint64_t number = 1; number <= 8; ++number) {
    recent.Add(kLink, Filled(number));
    ReadAll(recent, number);
  }
  for (std::uint64_t number = 5; number <= 8; ++number)
    EXPECT_TRUE(recent.Contains(BlockNumber(number))) << number;
  EXPECT_EQ(recent.bytes(), 4 * kLength);
}

// A second reader of the same block, somewhat behind the first.
TEST(RecentBlocks, WhatWasReadThroughAndIsReadAgainIsStillInUse) {
  RecentBlocks recent(2ULL * kLength);
  recent.Add(kLink, Filled(1));
  recent.Add(kLink, Filled(2));
  EXPECT_TRUE(recent.Read(BlockNumber(1), {0, kLength}).has_value());
  EXPECT_TRUE(recent.Read(BlockNumber(1), {0, kCellBytes}).has_value());
  recent.Add(kLink, Filled(3));
  EXPECT_TRUE(recent.Contains(BlockNumber(1)));
  EXPECT_FALSE(recent.Contains(BlockNumber(2)));
}

TEST(RecentBlocks, ABlockLargerThanTheLimitIsHeldAlone) {
  RecentBlocks recent(1);
  recent.Add(kLink, Filled(1));
  recent.Add(kLink, Filled(2));
  EXPECT_FALSE(recent.Contains(BlockNumber(1)));
  EXPECT_TRUE(recent.Contains(BlockNumber(2)));
  EXPECT_EQ(recent.bytes(), kLength);
}

TEST(RecentBlocks, ABlockThatComesTwiceIsCountedOnce) {
  RecentBlocks recent(10ULL * kLength);
  recent.Add(kLink, Filled(1));
  recent.Add(kLink, Filled(1));
  EXPECT_EQ(recent.bytes(), kLength);
}

TEST(RecentBlocks, ForgetsOneOrAll) {
  RecentBlocks recent(10ULL * kLength);
  recent.Add(kLink, Filled(1));
  recent.Add(kLink, Filled(2));
  recent.Remove(BlockNumber(1));
  recent.Remove(BlockNumber(9));
  EXPECT_FALSE(recent.Contains(BlockNumber(1)));
  EXPECT_EQ(recent.bytes(), kLength);
  recent.Clear();
  EXPECT_FALSE(recent.Contains(BlockNumber(2)));
  EXPECT_EQ(recent.bytes(), 0u);
}

TEST(RecentBlocks, ForgetsTheBlocksOfOneLinkAndKeepsTheOthers) {
  RecentBlocks recent(10ULL * kLength);
  const Uuid other = Uuid::Random();
  recent.Add(kLink, Filled(1));
  recent.Add(other, Filled(2));
  recent.Add(kLink, Filled(3));
  recent.RemoveLink(kLink);
  EXPECT_FALSE(recent.Contains(BlockNumber(1)));
  EXPECT_TRUE(recent.Contains(BlockNumber(2)));
  EXPECT_FALSE(recent.Contains(BlockNumber(3)));
  EXPECT_EQ(recent.bytes(), kLength);
}

}  // namespace
}  // namespace forebay
