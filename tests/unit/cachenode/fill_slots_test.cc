#include "cachenode/fill_slots.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <mutex>
#include <vector>

#include "common/base/executors.h"

namespace forebay {
namespace {

class FillSlotsTest : public ::testing::Test {
 protected:
  FillSlotsTest() { pool_.Start(); }

  std::future<Status> Take(FillSlots& slots, Duration patience = std::chrono::seconds(20)) {
    return asio::co_spawn(pool_.At(0), slots.Take(Deadline::After(patience)), asio::use_future);
  }

  IoPool pool_{"slots", 1};
};

Task<Status> TakeAndNote(FillSlots* slots, int number, std::vector<int>* order) {
  Status taken = co_await slots->Take(Deadline::After(std::chrono::seconds(20)));
  order->push_back(number);
  slots->Return();
  co_return taken;
}

TEST_F(FillSlotsTest, WhoCameFirstIsServedFirst) {
  FillSlots slots(1, 100);
  ASSERT_TRUE(Take(slots).get().has_value());
  std::vector<int> order;
  std::vector<std::future<Status>> waiting;
  waiting.reserve(10);
  for (int i = 0; i < 10; ++i) {
    waiting.push_back(
        asio::co_spawn(pool_.At(0), TakeAndNote(&slots, i, &order), asio::use_future));
  }
  slots.Return();
  for (auto& one : waiting) EXPECT_TRUE(one.get().has_value());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(slots.free(), 1u);
}

TEST_F(FillSlotsTest, TheQueueIsBounded) {
  FillSlots slots(1, 1);
  ASSERT_TRUE(Take(slots).get().has_value());
  std::future<Status> second = Take(slots);
  EXPECT_EQ(Take(slots).get().error().code, Code::kOverloaded);
  slots.Return();
  EXPECT_TRUE(second.get().has_value());
  slots.Return();
  EXPECT_EQ(slots.free(), 1u);
}

TEST_F(FillSlotsTest, WhoGivesUpTakesNoSlotAlong) {
  FillSlots slots(1, 10);
  ASSERT_TRUE(Take(slots).get().has_value());
  EXPECT_EQ(Take(slots, std::chrono::milliseconds(20)).get().error().code, Code::kTimeout);
  slots.Return();
  EXPECT_EQ(slots.free(), 1u);
  EXPECT_TRUE(Take(slots).get().has_value());
}

}  // namespace
}  // namespace forebay
