// The asynchronous primitives: budgets, notifiers, single flight, pools.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/base/single_flight.h"
#include "tests/fakes/run_task.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kBound{20};  // far more than anything here takes

TEST(Result, ErrorsKeepTheirCodeAndGainContext) {
  const Status failed = Fail(Code::kStale, "the object changed");
  EXPECT_EQ(failed.error().Within("reading a.jpg"),
            (Error{Code::kStale, "reading a.jpg: the object changed"}));
  EXPECT_EQ(CodeName(Code::kNotFound), "NotFound");
  EXPECT_EQ(CodeName(Code::kInternal), "Internal");
}

TEST(Deadline, NeverHasNegativeTimeLeftAndOnlyShrinks) {
  const TimePoint now = Clock::now();
  const Deadline deadline(now + seconds(2));
  EXPECT_FALSE(deadline.Expired(now));
  EXPECT_TRUE(deadline.Expired(now + seconds(2)));
  EXPECT_EQ(deadline.Remaining(now + seconds(5)), Duration::zero());
  EXPECT_EQ(deadline.RemainingMs(now + std::chrono::microseconds(1'999'500)), milliseconds(1));
  EXPECT_EQ(deadline.AtMost(std::chrono::hours(1)).at(), deadline.at());
  EXPECT_LT(deadline.AtMost(milliseconds(1)).at(), deadline.at());
}

TEST(Buffer, SlicesKeepTheWholeBufferAlive) {
  auto buffer = std::make_shared<Buffer>(8);
  buffer->span()[5] = std::byte{42};
  const std::weak_ptr<Buffer> watched = buffer;
  Slice part = Slice::Of(std::move(buffer)).Sub(4, 3);
  ASSERT_EQ(part.bytes.size(), 3U);
  EXPECT_EQ(part.bytes[1], std::byte{42});
  EXPECT_FALSE(watched.expired());
  part = Slice();
  EXPECT_TRUE(watched.expired());
}

TEST(MemoryBudget, RefusesWhatPassesTheLimitAndCountsWhatIsOut) {
  MemoryBudget budget(100);
  {
    auto first = budget.TryReserve(60);
    ASSERT_TRUE(first);
    EXPECT_EQ(budget.TryReserve(41).error().code, Code::kOverloaded);
    auto second = budget.TryReserve(40);
    ASSERT_TRUE(second);
    EXPECT_EQ(budget.in_use(), 100U);
    MemoryBudget::Reservation moved = std::move(*first);
    EXPECT_EQ(budget.in_use(), 100U);
    moved.Release();
    moved.Release();
    EXPECT_EQ(budget.in_use(), 40U);
  }
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(MemoryBudget, GrantsWhatIsLargerThanTheLimitWhenNothingElseIsOut) {
  MemoryBudget budget(100);
  auto large = budget.TryReserve(1000);
  ASSERT_TRUE(large);
  EXPECT_FALSE(budget.TryReserve(1));
  large->Release();
  EXPECT_TRUE(budget.TryReserve(1));
}

TEST(MemoryBudget, AWaiterGetsWhatAnotherGivesBack) {
  MemoryBudget budget(100);
  auto held = budget.TryReserve(100);
  ASSERT_TRUE(held);
  IoPool pool("test", 2);
  pool.Start();
  std::promise<bool> granted;
  Spawn(pool.At(0), [](MemoryBudget& from, std::promise<bool>& done) -> Task<void> {
    Result<MemoryBudget::Reservation> reservation =
        co_await from.Reserve(50, Deadline::After(kBound));
    done.set_value(reservation.has_value() && reservation->bytes() == 50);
  }(budget, granted));
  held->Release();
  std::future<bool> result = granted.get_future();
  ASSERT_EQ(result.wait_for(kBound), std::future_status::ready);
  EXPECT_TRUE(result.get());
  pool.Stop();
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(MemoryBudget, AWaiterGivesUpAtItsDeadline) {
  MemoryBudget budget(100);
  auto held = budget.TryReserve(100);
  ASSERT_TRUE(held);
  const auto waited = fakes::RunTask(budget.Reserve(1, Deadline::After(milliseconds(5))));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Code::kTimeout);
}

Task<bool> WaitWith(Notifier& notifier, bool notify_first, Duration patience) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = notifier.Enlist(executor);
  if (notify_first) notifier.NotifyAll();
  const bool woken = co_await ticket.Wait(Deadline::After(patience));
  co_return woken;
}

TEST(Notifier, AWakeUpBetweenEnlistingAndWaitingIsNotLost) {
  Notifier notifier;
  EXPECT_TRUE(fakes::RunTask(WaitWith(notifier, true, kBound)));
}

TEST(Notifier, WithoutAWakeUpTheDeadlineEndsTheWait) {
  Notifier notifier;
  EXPECT_FALSE(fakes::RunTask(WaitWith(notifier, false, milliseconds(5))));
}

TEST(Notifier, WakesWaitersOfOtherThreads) {
  Notifier notifier;
  std::atomic<bool> holds = false;
  IoPool pool("test", 4);
  pool.Start();
  std::atomic<int> woken = 0;
  std::promise<void> all;
  for (std::size_t i = 0; i < 32; ++i) {
    Spawn(pool.Next(),
          [](Notifier& from, std::atomic<bool>& condition, std::atomic<int>& count,
             std::promise<void>& done) -> Task<void> {
            const asio::any_io_executor executor = co_await asio::this_coro::executor;
            for (;;) {
              Notifier::Ticket ticket = from.Enlist(executor);
              if (condition) break;
              const bool notified = co_await ticket.Wait(Deadline::After(kBound));
              if (!notified) co_return;
            }
            if (++count == 32) done.set_value();
          }(notifier, holds, woken, all));
  }
  holds = true;
  notifier.NotifyAll();
  EXPECT_EQ(all.get_future().wait_for(kBound), std::future_status::ready);
  pool.Stop();
}

TEST(SingleFlight, TheFirstLeadsAndTheOthersJoin) {
  SingleFlight<std::string, int> flights;
  const auto make = [] { return std::make_shared<int>(7); };
  const auto first = flights.Join("a", make);
  const auto second = flights.Join("a", make);
  const auto other = flights.Join("b", make);
  EXPECT_TRUE(first.leads);
  EXPECT_FALSE(second.leads);
  EXPECT_TRUE(other.leads);
  EXPECT_EQ(first.flight, second.flight);
  EXPECT_EQ(flights.Find("a"), first.flight);
  flights.Leave("a", first.flight);
  EXPECT_EQ(flights.Find("a"), nullptr);
  EXPECT_TRUE(flights.Join("a", make).leads);
}

TEST(SingleFlight, LeavingTwiceDoesNotEndTheNextFlight) {
  SingleFlight<int, int> flights;
  const auto make = [] { return std::make_shared<int>(0); };
  const auto old = flights.Join(1, make);
  flights.Leave(1, old.flight);
  const auto next = flights.Join(1, make);
  flights.Leave(1, old.flight);
  EXPECT_EQ(flights.Find(1), next.flight);
  flights.Leave(1, next.flight);
  EXPECT_EQ(flights.size(), 0U);
}

TEST(Offload, RunsElsewhereAndResumesHere) {
  Offload offload(1, 4);
  const auto task = [](Offload& pool) -> Task<bool> {
    const std::thread::id here = std::this_thread::get_id();
    const auto work = []() -> Result<std::thread::id> { return std::this_thread::get_id(); };
    const Result<std::thread::id> there = co_await pool.Run(work);
    co_return there.has_value() && *there != here&& std::this_thread::get_id() == here;
  };
  EXPECT_TRUE(fakes::RunTask(task(offload)));
}

TEST(Offload, RefusesMoreThanItsQueueHolds) {
  Offload offload(1, 1);
  std::promise<void> entered;
  std::promise<void> release;
  IoPool pool("test", 1);
  pool.Start();
  Spawn(pool.At(0), [](Offload& to, std::promise<void>& in, std::promise<void>& out) -> Task<void> {
    const auto work = [&in, &out]() -> Status {
      in.set_value();
      out.get_future().wait_for(kBound);
      return {};
    };
    co_await to.Run(work);
  }(offload, entered, release));
  ASSERT_EQ(entered.get_future().wait_for(kBound), std::future_status::ready);
  const auto task = [](Offload& to) -> Task<Status> {
    const auto work = []() -> Status { return {}; };
    Status status = co_await to.Run(work);
    co_return status;
  };
  const Status refused = fakes::RunTask(task(offload));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  release.set_value();
  offload.Stop();  // before the pool: the work's answer goes to the caller's event loop
  pool.Stop();
}

TEST(IoPool, GivesItsContextsInTurnAndStopsTwice) {
  IoPool pool("test", 3);
  EXPECT_EQ(pool.size(), 3U);
  const asio::io_context* first = &pool.Next();
  pool.Next();
  pool.Next();
  EXPECT_EQ(&pool.Next(), first);
  pool.Start();
  pool.Stop();
  pool.Stop();
}

}  // namespace
}  // namespace forebay
