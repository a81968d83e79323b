#include "cachenode/kept_listings.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace forebay {
namespace {

BlockId Block(std::uint64_t version, std::uint64_t offset = 0) {
  return {.version = {.high = version, .low = 1}, .offset = offset, .length = 4096};
}

TEST(KeptListings, GiveUpAllButTheLastTwoGenerations) {
  KeptListings listings;
  const Uuid link = Uuid::Random();
  EXPECT_TRUE(listings.Add(link, "1.fbs", Block(1)).empty());
  EXPECT_TRUE(listings.Add(link, "1.fbs", Block(1, 4096)).empty());
  EXPECT_TRUE(listings.Add(link, "1-2.fbd", Block(2)).empty());
  EXPECT_TRUE(listings.Add(link, "2.fbs", Block(3)).empty());
  // Another link's generations are its own.
  EXPECT_TRUE(listings.Add(Uuid::Random(), "9.fbs", Block(9)).empty());
  const std::vector<BlockId> first = {Block(1), Block(1, 4096)};
  EXPECT_EQ(listings.Add(link, "4.fbs", Block(4)), first);
  const std::vector<BlockId> second = {Block(2), Block(3)};
  EXPECT_EQ(listings.Add(link, "5.fbs", Block(5)), second);
}

// A mount that is late may have had it fetched.
TEST(KeptListings, GiveUpABlockOfAnOldGenerationAtOnce) {
  KeptListings listings;
  const Uuid link = Uuid::Random();
  std::ignore = listings.Add(link, "4.fbs", Block(4));
  std::ignore = listings.Add(link, "5.fbs", Block(5));
  EXPECT_EQ(listings.Add(link, "3.fbs", Block(3)), std::vector<BlockId>{Block(3)});
}

TEST(KeptListings, DoNotKnowOtherObjects) {
  KeptListings listings;
  EXPECT_TRUE(listings.Add(Uuid::Random(), "train/1.jpg", Block(1)).empty());
}

}  // namespace
}  // namespace forebay
