#include "cachenode/fill_slots.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/executors.h"

namespace forebay {
namespace {

using Turn = std::shared_ptr<FillSlots::Turn>;

Turn Demand() { return std::make_shared<FillSlots::Turn>(Urgency::kReader); }
Turn Background() { return std::make_shared<FillSlots::Turn>(Urgency::kAsked); }
Turn Spare() { return std::make_shared<FillSlots::Turn>(Urgency::kSpare); }

class FillSlotsTest : public ::testing::Test {
 protected:
  FillSlotsTest() { pool_.Start(); }

  std::future<Status> Take(FillSlots& slots, const Turn& turn,
                           Duration patience = std::chrono::seconds(20)) {
    std::future<Status> taken =
        asio::co_spawn(pool_.At(0), slots.Take(turn, Deadline::After(patience)), asio::use_future);
    Settle();
    return taken;
  }
  bool Has(std::future<Status>& slot) {
    Settle();
    return slot.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  /// Everything that was started has come as far as it can: each turn of the loop runs what the
  /// one before made ready.
  void Settle() {
    for (int turn = 0; turn < 5; ++turn) {
      std::promise<void> done;
      asio::post(pool_.At(0), [&] { done.set_value(); });
      done.get_future().wait();
    }
  }

  IoPool pool_{"slots", 1};
};

Task<Status> TakeAndNote(FillSlots* slots, Turn turn, int number, std::vector<int>* order) {
  Status taken = co_await slots->Take(turn, Deadline::After(std::chrono::seconds(20)));
  order->push_back(number);
  slots->Return(turn);
  co_return taken;
}

TEST_F(FillSlotsTest, WhoCameFirstIsServedFirst) {
  FillSlots slots(1, 1, 100);
  const Turn first = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::vector<int> order;
  std::vector<std::future<Status>> waiting;
  waiting.reserve(10);
  for (int i = 0; i < 10; ++i) {
    waiting.push_back(
        asio::co_spawn(pool_.At(0), TakeAndNote(&slots, Demand(), i, &order), asio::use_future));
  }
  Settle();
  slots.Return(first);
  for (auto& one : waiting) EXPECT_TRUE(one.get().has_value());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(slots.free(), 1u);
}

// The limit grows by itself while no reader comes; whoever finds that it has wakes all that it lets
// through, not only himself.
TEST_F(FillSlotsTest, AGrownShareWakesThoseWhoWaitedForIt) {
  constexpr std::size_t kMost = 60;
  constexpr std::size_t kBesideReaders = 4;
  FillSlots slots(128, kMost, 100000);
  slots.NoteReader(Uuid{{1}}, 40000, std::chrono::milliseconds(5));
  std::vector<std::pair<Turn, std::future<Status>>> all;
  const auto add = [&] {
    const Turn turn = Background();
    all.emplace_back(turn, Take(slots, turn));
  };
  for (std::size_t i = 0; i < kBesideReaders; ++i) {
    add();
    EXPECT_TRUE(Has(all.back().second));
  }
  add();
  EXPECT_FALSE(Has(all.back().second)) << "readers have just been there";
  const Deadline deadline = Deadline::After(std::chrono::seconds(10));
  while (!Has(all[kBesideReaders].second) && !deadline.Expired()) add();
  EXPECT_TRUE(Has(all[kBesideReaders].second));
  for (auto& [turn, slot] : all) {
    if (slot.get()) slots.Return(turn);
  }
}

TEST_F(FillSlotsTest, TheQueueIsBounded) {
  FillSlots slots(1, 1, 1);
  const Turn first = Demand();
  const Turn second = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::future<Status> waits = Take(slots, second);
  EXPECT_EQ(Take(slots, Demand()).get().error().code, Code::kOverloaded);
  slots.Return(first);
  EXPECT_TRUE(waits.get().has_value());
  slots.Return(second);
  EXPECT_EQ(slots.free(), 1u);
}

TEST_F(FillSlotsTest, WhoGivesUpTakesNoSlotAlong) {
  FillSlots slots(1, 1, 10);
  const Turn first = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  for (const Turn& impatient : {Demand(), Background()}) {
    EXPECT_EQ(Take(slots, impatient, std::chrono::milliseconds(20)).get().error().code,
              Code::kTimeout);
  }
  slots.Return(first);
  EXPECT_EQ(slots.free(), 1u);
  EXPECT_TRUE(Take(slots, first).get().has_value());
}

TEST_F(FillSlotsTest, DemandOvertakesTheBackground) {
  FillSlots slots(1, 1, 100);
  const Turn first = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::vector<int> order;
  std::vector<std::future<Status>> waiting;
  const std::vector<Turn> turns = {Background(), Demand(), Background(), Demand()};
  waiting.reserve(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    waiting.push_back(asio::co_spawn(
        pool_.At(0), TakeAndNote(&slots, turns[i], static_cast<int>(i), &order), asio::use_future));
  }
  Settle();
  slots.Return(first);
  for (auto& one : waiting) EXPECT_TRUE(one.get().has_value());
  EXPECT_EQ(order, (std::vector<int>{1, 3, 0, 2}));
}

TEST_F(FillSlotsTest, ASpareFillComesAfterAllOthersAndMovesUpOnly) {
  FillSlots slots(1, 1, 100);
  const Turn first = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::vector<int> order;
  std::vector<std::future<Status>> waiting;
  const std::vector<Turn> turns = {Spare(), Spare(), Background(), Demand(), Spare()};
  waiting.reserve(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    waiting.push_back(asio::co_spawn(
        pool_.At(0), TakeAndNote(&slots, turns[i], static_cast<int>(i), &order), asio::use_future));
  }
  Settle();
  slots.Promote(turns[1], Urgency::kAsked);   // a preload asks for it, too
  slots.Promote(turns[4], Urgency::kReader);  // a reader came for it
  slots.Promote(turns[4], Urgency::kAsked);   // and a preload later
  slots.Return(first);
  for (auto& one : waiting) EXPECT_TRUE(one.get().has_value());
  EXPECT_EQ(order, (std::vector<int>{3, 4, 2, 1, 0}));
  EXPECT_EQ(slots.free(), 1u);
}

TEST_F(FillSlotsTest, TheBackgroundNeverTakesMoreThanItsShare) {
  FillSlots slots(4, 2, 100);
  std::vector<Turn> turns;
  std::vector<std::future<Status>> taken;
  for (int i = 0; i < 4; ++i) {
    turns.push_back(Background());
    taken.push_back(Take(slots, turns.back()));
  }
  EXPECT_TRUE(Has(taken[0]) && Has(taken[1]));
  EXPECT_FALSE(Has(taken[2]) || Has(taken[3]));
  EXPECT_EQ(slots.free(), 2u) << "for readers";
  const Turn reader = Demand();
  EXPECT_TRUE(Take(slots, reader).get().has_value());
  slots.Return(turns[0]);
  EXPECT_TRUE(taken[2].get().has_value());
  for (const Turn& turn : {turns[1], turns[2], reader}) slots.Return(turn);
  EXPECT_TRUE(taken[3].get().has_value());
  slots.Return(turns[3]);
  EXPECT_EQ(slots.free(), 4u);
}

TEST_F(FillSlotsTest, AReaderTakesAWaitingFillOutOfTheBackground) {
  FillSlots slots(2, 1, 100);
  const Turn first = Background();
  const Turn second = Background();
  const Turn wanted = Background();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::future<Status> waits = Take(slots, second);
  std::future<Status> joined = Take(slots, wanted);
  EXPECT_FALSE(Has(joined)) << "the share is used up";
  EXPECT_TRUE(slots.InBackground(*wanted));
  slots.Promote(wanted, Urgency::kReader);
  EXPECT_TRUE(Has(joined)) << "a reader's slot was free";
  EXPECT_FALSE(slots.InBackground(*wanted));
  EXPECT_FALSE(Has(waits));
  slots.Return(wanted);
  slots.Return(first);
  EXPECT_TRUE(waits.get().has_value());
  slots.Return(second);
  EXPECT_EQ(slots.free(), 2u);
}

TEST_F(FillSlotsTest, WhoIsPromotedOnTheWayInIsDemand) {
  FillSlots slots(1, 1, 100);
  const Turn first = Demand();
  ASSERT_TRUE(Take(slots, first).get().has_value());
  std::future<Status> background = Take(slots, Background());
  const Turn wanted = Background();
  slots.Promote(wanted, Urgency::kReader);
  std::future<Status> joined = Take(slots, wanted);
  slots.Return(first);
  EXPECT_TRUE(Has(joined));
  EXPECT_FALSE(Has(background));
  slots.Return(wanted);
  EXPECT_TRUE(background.get().has_value());
}

}  // namespace
}  // namespace forebay
