#include "fuse-client/order/announced_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

namespace forebay {
namespace {

constexpr AnnouncedOrder::Window kTen = {.files = 10, .bytes = 1 << 20};

std::optional<std::uint64_t> TenBytes(std::uint64_t) { return 10; }

std::vector<std::uint64_t> Files(std::size_t count, std::uint64_t first = 100) {
  std::vector<std::uint64_t> files(count);
  std::iota(files.begin(), files.end(), first);
  return files;
}

std::vector<std::uint64_t> TakeAll(AnnouncedOrder& order, AnnouncedOrder::Window window = kTen) {
  std::vector<std::uint64_t> taken;
  while (const auto next = order.Take(window, TenBytes)) taken.push_back(next->nodeid);
  return taken;
}

TEST(AnnouncedOrder, SoMuchIsFetchedAheadAsTheWindowHolds) {
  AnnouncedOrder order(Files(100));
  EXPECT_EQ(TakeAll(order), Files(10));
  EXPECT_TRUE(TakeAll(order).empty());
  AnnouncedOrder by_bytes(Files(100));
  EXPECT_EQ(TakeAll(by_bytes, {.files = 100, .bytes = 35}), Files(4));
}

TEST(AnnouncedOrder, AReadMakesRoomForWhatFollows) {
  AnnouncedOrder order(Files(100));
  TakeAll(order);
  order.NoteRead(102);
  EXPECT_EQ(order.position(), 3u);
  EXPECT_EQ(TakeAll(order), Files(3, 110));
  order.NoteRead(101);  // late
  EXPECT_EQ(order.position(), 3u);
  EXPECT_TRUE(TakeAll(order).empty());
}

TEST(AnnouncedOrder, WhatWasTakenIsAheadUntilTheJobHasComeThere) {
  AnnouncedOrder order(Files(100));
  const std::optional<AnnouncedOrder::Next> first = order.Take(kTen, TenBytes);
  const std::optional<AnnouncedOrder::Next> second = order.Take(kTen, TenBytes);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(order.IsAhead(*first));
  order.NoteRead(100);
  EXPECT_FALSE(order.IsAhead(*first));
  EXPECT_TRUE(order.IsAhead(*second));
  EXPECT_FALSE(AnnouncedOrder(Files(100, 5000)).IsAhead(*second)) << "of another order";
  EXPECT_FALSE(AnnouncedOrder(Files(1)).IsAhead(*second)) << "of a shorter one";
}

TEST(AnnouncedOrder, AReaderThatOvertakesIsNotFetchedFor) {
  AnnouncedOrder order(Files(100));
  TakeAll(order);
  order.NoteRead(150);
  EXPECT_EQ(TakeAll(order), Files(10, 151));
}

TEST(AnnouncedOrder, EndsWithItsLastFile) {
  AnnouncedOrder order(Files(12));
  TakeAll(order);
  order.NoteRead(109);
  EXPECT_EQ(TakeAll(order), Files(2, 110));
  order.NoteRead(111);
  EXPECT_EQ(order.position(), 12u);
  EXPECT_TRUE(TakeAll(order).empty());
}

TEST(AnnouncedOrder, OneFileInSixteenIsASign) {
  AnnouncedOrder order(Files(64));
  std::size_t signs = 0;
  while (const auto next = order.Take({.files = 64, .bytes = 1 << 20}, TenBytes)) {
    signs += next->sign ? 1 : 0;
    if (next->nodeid == 100) EXPECT_TRUE(next->sign) << "the first read is heard of";
  }
  EXPECT_EQ(signs, 64 / AnnouncedOrder::kSignEvery);
}

TEST(AnnouncedOrder, WhatIsGoneIsPassedOver) {
  AnnouncedOrder order(Files(20));
  const auto odd = [](std::uint64_t nodeid) -> std::optional<std::uint64_t> {
    if (nodeid % 2 == 0) return std::nullopt;
    return 10;
  };
  std::vector<std::uint64_t> taken;
  while (const auto next = order.Take(kTen, odd)) taken.push_back(next->nodeid);
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{101, 103, 105, 107, 109}));
}

TEST(AnnouncedOrder, TheSecondEpochIsNotTheFirst) {
  std::vector<std::uint64_t> files = Files(50'000);
  const std::vector<std::uint64_t> again = files;
  files.insert(files.end(), again.begin(), again.end());
  AnnouncedOrder order(std::move(files));
  for (const std::uint64_t file : again) order.NoteRead(file);
  EXPECT_EQ(order.position(), 50'000u);
  order.NoteRead(100);
  EXPECT_EQ(order.position(), 50'001u);
  EXPECT_EQ(TakeAll(order), Files(10, 101));
}

TEST(AnnouncedOrder, AFewReadsElsewhereMoveNothingAndManyMoveTheJob) {
  AnnouncedOrder order(Files(100'000));
  order.NoteRead(104);
  TakeAll(order);
  for (std::size_t i = 0; i + 1 < AnnouncedOrder::kStraysForJump; ++i) order.NoteRead(60'000 + i);
  EXPECT_EQ(order.position(), 5u);
  order.NoteRead(105);
  EXPECT_EQ(order.position(), 6u);
  for (std::size_t i = 0; i < AnnouncedOrder::kStraysForJump; ++i) order.NoteRead(60'000 + i);
  EXPECT_EQ(order.position(), 60'000u + AnnouncedOrder::kStraysForJump - 100);
  EXPECT_EQ(TakeAll(order).front(), 60'000u + AnnouncedOrder::kStraysForJump);
}

TEST(AnnouncedOrder, AJobThatBeginsAnewIsFetchedForAgain) {
  AnnouncedOrder order(Files(100'000));
  order.Resume(90'000);
  EXPECT_EQ(TakeAll(order), Files(10, 90'100));
  for (std::size_t i = 0; i < AnnouncedOrder::kStraysForJump; ++i) order.NoteRead(100 + i);
  EXPECT_EQ(TakeAll(order), Files(10, 100 + AnnouncedOrder::kStraysForJump));
}

TEST(AnnouncedOrder, FilesThatAreNotInItSayNothing) {
  AnnouncedOrder order(Files(10));
  for (int i = 0; i < 100; ++i) order.NoteRead(7);
  EXPECT_EQ(order.position(), 0u);
  AnnouncedOrder nothing({});
  nothing.NoteRead(7);
  EXPECT_TRUE(TakeAll(nothing).empty());
}

}  // namespace
}  // namespace forebay
