#include "cachenode/fill_brake.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/base/notifier.h"

namespace forebay {
namespace {

/// Long enough to hold a few blocks of a small budget, short enough to show what is now.
constexpr std::chrono::seconds kWindow{5};
constexpr std::size_t kMostWaiting = 65536;  ///< One waits for each cold block.

}  // namespace

struct FillBrake::Waiter {
  BlockId block;
  Urgency urgency = Urgency::kReader;
  bool dropped = false;
  Notifier called;
};

void FillBrake::Set(const FillLimits& limits) {
  {
    const std::scoped_lock lock(mutex_);
    if (limits_ == limits) return;
    limits_ = limits;
    const TimePoint now = Clock::now();
    bytes_.SetRate(limits.bytes_per_s, now);
    requests_.SetRate(limits.requests_per_s, now);
  }
  WakeFirst();
}

std::shared_ptr<FillBrake::Waiter> FillBrake::First() const {
  const auto first = std::ranges::find_if_not(queues_, &Queue::empty);
  return first == queues_.end() ? nullptr : first->front();
}

Duration FillBrake::WaitTime(TimePoint now) {
  if (limits_.paused_since_unix_s != 0) return Duration::max();
  return std::max(bytes_.Wait(now), requests_.Wait(now));
}

void FillBrake::TurnWindow(TimePoint now) {
  if (now - window_ < kWindow) return;
  before_ = now - window_ < 2 * kWindow ? now_ : Used();
  now_ = {};
  window_ = now;
}

void FillBrake::Take(std::uint64_t bytes, TimePoint now) {
  TurnWindow(now);
  now_.bytes += static_cast<double>(bytes);
  now_.requests += 1;
  bytes_.Take(static_cast<double>(bytes), now);
  requests_.Take(1, now);
}

bool FillBrake::TakeAtOnce(std::uint64_t bytes, TimePoint now) {
  if (First() || WaitTime(now) > Duration::zero()) return false;
  Take(bytes, now);
  return true;
}

void FillBrake::Forget(const std::shared_ptr<Waiter>& waiter) {
  const bool waited = std::erase(QueueOf(waiter->urgency), waiter) > 0;
  if (waited && waiter->urgency != Urgency::kReader) background_waiting_.fetch_sub(1);
}

Error FillBrake::Refusal() const {
  const std::scoped_lock lock(mutex_);
  if (closed_) return Error{Code::kUnavailable, "this node is stopping"};
  if (limits_.paused_since_unix_s != 0)
    return Error{Code::kTimeout, "fills are paused: `forebay resume fills` lets them go on"};
  return Error{Code::kTimeout, refusal_};
}

void FillBrake::WakeFirst() {
  std::shared_ptr<Waiter> first;
  {
    const std::scoped_lock lock(mutex_);
    first = First();
  }
  if (first) first->called.NotifyAll();
}

Task<Status> FillBrake::Pass(BlockId block, Urgency urgency, Deadline deadline,
                             std::optional<std::uint32_t> bytes) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto waiter = std::make_shared<Waiter>();
  waiter->block = block;
  waiter->urgency = urgency;
  {
    const std::scoped_lock lock(mutex_);
    // Who need not wait is not seen to, however long this thread is held up before it goes on.
    if (!closed_ && TakeAtOnce(bytes.value_or(block.length), Clock::now())) co_return Status();
    std::size_t waiting = 0;
    for (const Queue& queue : queues_) waiting += queue.size();
    if (waiting >= kMostWaiting)
      co_return Fail(Code::kOverloaded, "too many blocks wait for S3 at this node");
    QueueOf(urgency).push_back(waiter);
    if (urgency != Urgency::kReader) background_waiting_.fetch_add(1);
  }
  bool passed = false;
  for (bool expired = false; !passed && !expired;) {
    Notifier::Ticket ticket = waiter->called.Enlist(executor);
    Deadline look_again = deadline;
    {
      const std::scoped_lock lock(mutex_);
      if (closed_ || waiter->dropped) break;
      const TimePoint now = Clock::now();
      expired = deadline.Expired(now);
      if (First() == waiter) {
        const Duration wait = WaitTime(now);
        passed = wait <= Duration::zero();
        if (passed) Take(bytes.value_or(block.length), now);
        if (wait < deadline.Remaining(now)) look_again = Deadline(now + wait);
      }
    }
    if (!passed && !expired) (void)co_await ticket.Wait(look_again);
  }
  {
    const std::scoped_lock lock(mutex_);
    Forget(waiter);
  }
  WakeFirst();
  // Nobody sets it any more: the waiter is out of the queues.
  if (!passed && waiter->dropped)
    co_return Fail(Code::kOverloaded, "nobody wants block " + block.ToString() + " any more");
  if (!passed) co_return Fail(Refusal());
  co_return Status();
}

void FillBrake::GiveBack(std::uint64_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    bytes_.Take(-static_cast<double>(bytes), Clock::now());
  }
  WakeFirst();
}

std::shared_ptr<FillBrake::Waiter> FillBrake::FindBehind(const BlockId& block, Urgency than) const {
  for (auto urgency = static_cast<std::size_t>(than) + 1; urgency < queues_.size(); ++urgency) {
    const Queue& queue = queues_[urgency];
    const auto found = std::ranges::find(queue, block, [](const auto& w) { return w->block; });
    if (found != queue.end()) return *found;
  }
  return nullptr;
}

void FillBrake::Drop(const BlockId& block) {
  if (background_waiting_.load(std::memory_order_relaxed) == 0) return;
  std::shared_ptr<Waiter> dropped;
  {
    const std::scoped_lock lock(mutex_);
    dropped = FindBehind(block, Urgency::kReader);
    if (!dropped) return;
    dropped->dropped = true;
  }
  dropped->called.NotifyAll();
}

void FillBrake::Promote(const BlockId& block, Urgency urgency) {
  if (background_waiting_.load(std::memory_order_relaxed) == 0) return;
  {
    const std::scoped_lock lock(mutex_);
    const std::shared_ptr<Waiter> waiter = FindBehind(block, urgency);
    if (!waiter) return;
    std::erase(QueueOf(waiter->urgency), waiter);
    waiter->urgency = urgency;
    QueueOf(urgency).push_back(waiter);
    if (urgency == Urgency::kReader) background_waiting_.fetch_sub(1);
  }
  WakeFirst();
}

bool FillBrake::Open() {
  const std::scoped_lock lock(mutex_);
  return !closed_ && First() == nullptr && WaitTime(Clock::now()) <= Duration::zero();
}

double FillBrake::UseRatio(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  TurnWindow(now);
  const double seconds = std::chrono::duration<double>(kWindow).count();
  double ratio = 0;
  if (limits_.bytes_per_s > 0)
    ratio = std::max(now_.bytes, before_.bytes) / (limits_.bytes_per_s * seconds);
  if (limits_.requests_per_s > 0) {
    ratio = std::max(
        ratio, std::max(now_.requests, before_.requests) / (limits_.requests_per_s * seconds));
  }
  return std::min(ratio, 1.0);
}

void FillBrake::Close() {
  Queue waiting;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    for (const Queue& queue : queues_) waiting.insert(waiting.end(), queue.begin(), queue.end());
  }
  for (const auto& waiter : waiting) waiter->called.NotifyAll();
}

}  // namespace forebay
