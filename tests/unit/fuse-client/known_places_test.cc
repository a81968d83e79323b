#include "fuse-client/known_places.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/model/limits.h"

namespace forebay {
namespace {

constexpr auto kCell = static_cast<std::uint32_t>(kCellBytes);

BlockId BlockOf(std::uint64_t number, std::uint32_t length = 39'000) {
  return BlockId{.version = {.high = number, .low = number * 0x9E3779B97F4A7C15ULL},
                 .offset = 0,
                 .length = length};
}

class KnownPlacesTest : public ::testing::Test {
 protected:
  void Remember(const BlockId& block, std::uint64_t position, std::uint64_t checksum) {
    places_.Remember(link_, block, {0, block.length}, teller_, {1, position, {checksum}});
  }

  const Uuid link_ = Uuid::Random();
  KnownPlaces places_{1 << 20};
  PlaceTeller* teller_ = places_.Teller(7, "n1", "unix:/n1");
};

TEST_F(KnownPlacesTest, AreOfOneLinkAlone) {
  const BlockId block = BlockOf(1);
  Remember(block, 4096, 5);
  const auto known = places_.Find(link_, block, {0, block.length});
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->teller, teller_);
  EXPECT_EQ(known->segment, 1U);
  EXPECT_EQ(known->position, 4096U);
  EXPECT_EQ(known->checksums, std::vector<std::uint64_t>{5});
  EXPECT_FALSE(places_.Find(Uuid::Random(), block, {0, block.length}))
      << "links that share the block do not share its segment";
  EXPECT_FALSE(places_.Find(link_, BlockOf(1, 38'999), {0, 38'999}));
}

TEST_F(KnownPlacesTest, GrowCellByCell) {
  const BlockId block = BlockOf(1, 3 * kCell + 10);
  const auto find = [&](BlockRange cells) { return places_.Find(link_, block, cells); };
  places_.Remember(link_, block, {kCell, 2 * kCell}, teller_, {1, 5000 + kCell, {21}});
  EXPECT_FALSE(find({0, kCell}));
  EXPECT_FALSE(find({kCell, 3 * kCell})) << "half of it is not known";
  ASSERT_TRUE(find({kCell, 2 * kCell}));
  places_.Remember(link_, block, {2 * kCell, block.length}, teller_,
                   {1, 5000 + 2 * kCell, {22, 23}});
  const auto known = find({kCell, block.length});
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->position, 5000U + kCell);
  EXPECT_EQ(known->checksums, (std::vector<std::uint64_t>{21, 22, 23}));
  // It has moved: what was known of the old place says nothing.
  places_.Remember(link_, block, {0, kCell}, teller_, {2, 9000, {20}});
  EXPECT_FALSE(find({kCell, 2 * kCell}));
  EXPECT_EQ(find({0, kCell})->segment, 2U);
}

TEST_F(KnownPlacesTest, MoreChecksumsThanTheBlockHasCellsAreNotTaken) {
  const BlockId block = BlockOf(1, kCell);
  places_.Remember(link_, block, {0, kCell}, teller_, {1, 5000, {1, 2}});
  EXPECT_FALSE(places_.Find(link_, block, {0, kCell}));
}

TEST_F(KnownPlacesTest, AreForgottenOneByOneOrWithTheirTeller) {
  Remember(BlockOf(1), 1, 1);
  Remember(BlockOf(2), 2, 2);
  places_.Forget(link_, BlockOf(1));
  EXPECT_FALSE(places_.Find(link_, BlockOf(1), {0, 39'000}));
  EXPECT_TRUE(places_.Find(link_, BlockOf(2), {0, 39'000}));
  KnownPlaces::Forget(*teller_);
  EXPECT_FALSE(places_.Find(link_, BlockOf(2), {0, 39'000}));
  EXPECT_EQ(places_.size(), 0U);
  Remember(BlockOf(2), 2, 2);
  EXPECT_TRUE(places_.Find(link_, BlockOf(2), {0, 39'000})) << "what it tells later is new";
  EXPECT_EQ(places_.Teller(7, "n1", "unix:/n1"), teller_) << "the same process";
}

TEST_F(KnownPlacesTest, TakeNoMoreMemoryThanTheyMay) {
  constexpr std::uint64_t kMany = 50'000;
  for (std::uint64_t i = 0; i < kMany; ++i) Remember(BlockOf(i), i, i + 1);
  const std::uint64_t most = (1 << 20) / 168;
  EXPECT_LE(places_.size(), most);
  EXPECT_GE(places_.size(), most * 9 / 10);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto known = places_.Find(link_, BlockOf(i), {0, 39'000});
    if (known) EXPECT_EQ(known->position, i);
  }
  KnownPlaces none(0);
  none.Remember(link_, BlockOf(1), {0, 39'000}, none.Teller(1, "n", "unix:/n"), {1, 1, {1}});
  EXPECT_EQ(none.size(), 0U);
}

TEST_F(KnownPlacesTest, LackWhatIsNotThereAsLongAsNothingMustMakeWayForIt) {
  const BlockId block = BlockOf(1);
  EXPECT_TRUE(places_.Lacks(link_, block));
  Remember(block, 4096, 5);
  EXPECT_FALSE(places_.Lacks(link_, block));
  EXPECT_TRUE(places_.Lacks(Uuid::Random(), block));
  places_.Forget(link_, block);
  EXPECT_TRUE(places_.Lacks(link_, block));
  for (std::uint64_t i = 10; i < 30'000; ++i) Remember(BlockOf(i), i * 4096, i);
  EXPECT_FALSE(places_.Lacks(link_, block)) << "others would be forgotten";
  KnownPlaces none(0);
  EXPECT_FALSE(none.Lacks(link_, block));
}

TEST_F(KnownPlacesTest, ManyThreadsUseThem) {
  constexpr std::uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        const std::uint64_t number = (i * 7 + thread) % 9000;
        const auto known = places_.Find(link_, BlockOf(number), {0, 39'000});
        if (known) EXPECT_EQ(known->position, number);
        if (!known) Remember(BlockOf(number), number, number + 1);
        if (i % 64 == 0) places_.Forget(link_, BlockOf(number));
        if (i % 5000 == 0) KnownPlaces::Forget(*teller_);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace forebay
