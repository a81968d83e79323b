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
