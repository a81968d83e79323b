#include "cachenode/fill_order.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/model/system_link.h"

namespace forebay {
namespace {

constexpr std::uint32_t kCell = kCellBytes;
constexpr std::uint32_t kBlock = 4U << 20;

/// The second block of an object of three, wanted from `begin` to `end`.
ColdBlock Wanted(std::uint32_t begin, std::uint32_t end) {
  ColdBlock cold;
  auto link = std::make_shared<LinkSpec>();
  link->id = Uuid::Random();
  cold.link = std::move(link);
  cold.object.size = 3ULL * kBlock;
  cold.block.offset = kBlock;
  cold.block.length = kBlock;
  cold.wanted = {begin, end};
  return cold;
}

constexpr BlockRange kWhole{0, kBlock};

TEST(FillOrder, ALoneReaderFarBehindTheFrontIsServedFirst) {
  EXPECT_EQ(FirstCells(Wanted(3'000'000, 3'001'000)), (BlockRange{45 * kCell, 46 * kCell}));
  EXPECT_EQ(FirstCells(Wanted(kBlock - 1, kBlock)), (BlockRange{kBlock - kCell, kBlock}));
  EXPECT_EQ(FirstCells(Wanted(kFarBytes, kFarBytes + 1)),
            (BlockRange{kFarBytes, kFarBytes + kCell}));
}

TEST(FillOrder, WhatIsNearTheFrontIsNotWorthASecondRequest) {
  EXPECT_EQ(FirstCells(Wanted(kFarBytes - 1, kFarBytes + 1)), kWhole);
  EXPECT_EQ(FirstCells(Wanted(0, 1)), kWhole);
  EXPECT_EQ(FirstCells(Wanted(0, kBlock)), kWhole);
  EXPECT_EQ(FirstCells(Wanted(0, 0)), kWhole) << "nobody in particular";
}

TEST(FillOrder, AReadOfAWindowOfReadAheadMayBeOneOfManyFromTheFront) {
  for (std::uint32_t begin = 0; begin < kBlock; begin += kWindowReadBytes)
    EXPECT_EQ(FirstCells(Wanted(begin, begin + kWindowReadBytes)), kWhole) << begin;
  EXPECT_EQ(FirstCells(Wanted(2 * kWindowReadBytes, 3 * kWindowReadBytes - kCell)).begin,
            2 * kWindowReadBytes);
}

TEST(FillOrder, AnObjectOfOneBlockAndAListingComeInOneGet) {
  ColdBlock only = Wanted(3'000'000, 3'001'000);
  only.block.offset = 0;
  only.object.size = kBlock;
  EXPECT_EQ(FirstCells(only), kWhole);
  ColdBlock listing = Wanted(3'000'000, 3'001'000);
  listing.link = std::make_shared<const LinkSpec>(SystemLinkOf(*listing.link));
  EXPECT_EQ(FirstCells(listing), kWhole);
}

TEST(FillOrder, TheFirstCellsOfFirstCellsAreThey) {
  for (std::uint32_t begin = 0; begin < kBlock; begin += 99'991) {
    for (const std::uint32_t size : {1U, 70'000U, 900'000U, 1'000'000U, 2'000'000U}) {
      const BlockRange first = FirstCells(Wanted(begin, std::min(begin + size, kBlock)));
      EXPECT_EQ(FirstCells(Wanted(first.begin, first.end)), first) << begin << " " << size;
    }
  }
}

TEST(FillOrder, PartsAreAllOfTheBlockAndEachOnlyOnce) {
  using Parts = std::vector<BlockRange>;
  EXPECT_EQ(PartsFrom(kWhole, kBlock), (Parts{kWhole}));
  EXPECT_EQ(StreamsFrom(kWhole, kBlock), (Parts{kWhole}));
  const BlockRange middle{20 * kCell, 22 * kCell};
  EXPECT_EQ(PartsFrom(middle, kBlock), (Parts{middle, {22 * kCell, kBlock}, {0, 20 * kCell}}));
  EXPECT_EQ(StreamsFrom(middle, kBlock), (Parts{{20 * kCell, kBlock}, {0, 20 * kCell}}));
  const BlockRange last{kBlock - kCell, kBlock};
  EXPECT_EQ(PartsFrom(last, kBlock), (Parts{last, {0, kBlock - kCell}}));
}

}  // namespace
}  // namespace forebay
