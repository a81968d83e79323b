#include "common/base/offload.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace forebay {
namespace {

Task<void> Calling(std::function<void()> work) {
  work();
  co_return;
}

}  // namespace

Task<bool> Offload::Call(std::function<void()> work) {
  if (queued_.fetch_add(1, std::memory_order_relaxed) >= queue_limit_) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    co_return false;
  }
  // Work that has begun is finished: a cancellation would be delivered on a thread of the pool,
  // beside it.
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  co_await asio::co_spawn(pool_, Calling(std::move(work)), token);
  queued_.fetch_sub(1, std::memory_order_relaxed);
  co_return true;
}

}  // namespace forebay
