#include "common/base/buffer.h"

#include <boost/asio/this_coro.hpp>

namespace forebay {

void MemoryBudget::Reservation::Release() {
  if (budget_ == nullptr) return;
  budget_->in_use_.fetch_sub(bytes_, std::memory_order_acq_rel);
  budget_->freed_.NotifyAll();
  budget_ = nullptr;
  bytes_ = 0;
}

Result<MemoryBudget::Reservation> MemoryBudget::TryReserve(std::size_t bytes) {
  std::size_t used = in_use_.load(std::memory_order_relaxed);
  do {
    if (used != 0 && used + bytes > limit_) {
      return Fail(Code::kOverloaded, "the memory limit for data in flight is reached");
    }
  } while (!in_use_.compare_exchange_weak(used, used + bytes, std::memory_order_acq_rel));
  return Reservation(this, bytes);
}

Task<Result<MemoryBudget::Reservation>> MemoryBudget::Reserve(std::size_t bytes,
                                                              Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = freed_.Enlist(executor);
    Result<Reservation> reserved = TryReserve(bytes);
    if (reserved) co_return reserved;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return Fail(Code::kTimeout, "no memory became free for data in flight");
  }
}

}  // namespace forebay
