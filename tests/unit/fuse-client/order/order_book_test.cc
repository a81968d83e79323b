#include "fuse-client/order/order_book.h"

#include <gtest/gtest.h>

#include <utility>

namespace forebay {
namespace {

constexpr AnnouncedOrder::Window kTwo = {.files = 2, .bytes = 1 << 20};

std::optional<std::uint64_t> OneByte(std::uint64_t) { return 1; }

TEST(OrderBook, JobsTakeTurns) {
  OrderBook book;
  ASSERT_TRUE(book.Announce("a", AnnouncedOrder({1, 2, 3})));
  ASSERT_TRUE(book.Announce("b", AnnouncedOrder({11, 12, 13})));
  std::vector<std::pair<std::string, std::uint64_t>> taken;
  while (const auto next = book.Take(kTwo, OneByte)) {
    taken.emplace_back(next->job, next->file.nodeid);
  }
  EXPECT_EQ(taken, (std::vector<std::pair<std::string, std::uint64_t>>{
                       {"a", 1}, {"b", 11}, {"a", 2}, {"b", 12}}));
}

TEST(OrderBook, OnlyTheJobsOwnReadsMoveIt) {
  OrderBook book;
  int more = 0;
  book.OnMore([&] { ++more; });
  ASSERT_TRUE(book.Announce("a", AnnouncedOrder({1, 2, 3})));
  EXPECT_EQ(more, 1);
  book.NoteRead("b", 1);
  EXPECT_EQ(book.States().front().position, 0u);
  EXPECT_EQ(more, 1);
  book.NoteRead("a", 2);
  EXPECT_EQ(book.States().front().position, 2u);
  EXPECT_EQ(more, 2);
}

TEST(OrderBook, ALaterOrderReplacesAndAnEmptyOneEnds) {
  OrderBook book;
  ASSERT_TRUE(book.Announce("a", AnnouncedOrder({1, 2, 3})));
  ASSERT_TRUE(book.Announce("a", AnnouncedOrder({7})));
  EXPECT_EQ(book.Take(kTwo, OneByte)->file.nodeid, 7u);
  EXPECT_FALSE(book.Take(kTwo, OneByte));
  ASSERT_TRUE(book.Announce("a", AnnouncedOrder({})));
  EXPECT_TRUE(book.States().empty());
  book.NoteRead("a", 7);
}

TEST(OrderBook, HasRoomForSoManyJobs) {
  OrderBook book;
  for (std::size_t i = 0; i < OrderBook::kMaxJobs; ++i) {
    ASSERT_TRUE(book.Announce(std::to_string(i), AnnouncedOrder({1})));
  }
  EXPECT_FALSE(book.RoomFor("one more", 1));
  const Status refused = book.Announce("one more", AnnouncedOrder({1}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_TRUE(book.Announce("0", AnnouncedOrder({1, 2}))) << "it is there already";
  ASSERT_TRUE(book.Announce("1", AnnouncedOrder({})));
  EXPECT_TRUE(book.Announce("one more", AnnouncedOrder({1})));
}

}  // namespace
}  // namespace forebay
