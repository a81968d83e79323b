#include "cachenode/fill_slots.h"

#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/base/notifier.h"

namespace forebay {

struct FillSlots::Waiter {
  bool granted = false;  // guarded by the slots' mutex
  Notifier called;
};

Task<Status> FillSlots::Take(Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto waiter = std::make_shared<Waiter>();
  Notifier::Ticket ticket = waiter->called.Enlist(executor);
  {
    const std::scoped_lock lock(mutex_);
    if (free_ > 0) {
      --free_;
      co_return Status();
    }
    if (queue_.size() >= queue_limit_)
      co_return Fail(Code::kOverloaded, "too many blocks wait for S3 at this node");
    queue_.push_back(waiter);
  }
  const bool called = co_await ticket.Wait(deadline);
  const std::scoped_lock lock(mutex_);
  // A slot that was granted as the deadline passed is a slot all the same.
  if (called || waiter->granted) co_return Status();
  std::erase(queue_, waiter);
  co_return Fail(Code::kTimeout, "too many blocks wait for S3 at this node");
}

void FillSlots::Return() {
  std::shared_ptr<Waiter> next;
  {
    const std::scoped_lock lock(mutex_);
    if (queue_.empty()) {
      ++free_;
      return;
    }
    next = std::move(queue_.front());
    queue_.pop_front();
    next->granted = true;
  }
  next->called.NotifyAll();
}

std::size_t FillSlots::free() const {
  const std::scoped_lock lock(mutex_);
  return free_;
}

}  // namespace forebay
