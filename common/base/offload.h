#pragma once

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "common/base/asio.h"
#include "common/base/result.h"

namespace forebay {

/// Threads for work that may block (disks, RocksDB, name resolution), so that no event loop ever
/// does. A trip there and back costs 7-10 us (LIMITS.md): never on a hit. Owned by the composition
/// root, which stops all users before it.
class Offload {
 public:
  /// At most `queue_limit` pieces of work wait or run; one more is answered kOverloaded at once.
  Offload(std::size_t threads, std::size_t queue_limit)
      : pool_(threads), queue_limit_(queue_limit) {}
  ~Offload() { Stop(); }
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  /// Finishes what has begun, then joins. Idempotent.
  void Stop() { pool_.join(); }

  /// Calls `work()`, which must return a Result or Status, on one of the threads; resumes on the
  /// caller's executor.
  template <typename Work>
  Task<std::invoke_result_t<Work>> Run(Work work) {
    if (queued_.fetch_add(1, std::memory_order_relaxed) >= queue_limit_) {
      queued_.fetch_sub(1, std::memory_order_relaxed);
      co_return Fail(Code::kOverloaded, "too much disk work is waiting");
    }
    Task<std::invoke_result_t<Work>> call = Call(std::move(work));
    // Work that has begun is finished: a cancellation would be delivered on a thread of the pool,
    // beside it.
    auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
    auto result = co_await asio::co_spawn(pool_, std::move(call), token);
    queued_.fetch_sub(1, std::memory_order_relaxed);
    co_return result;
  }

 private:
  template <typename Work>
  static Task<std::invoke_result_t<Work>> Call(Work work) {
    co_return work();
  }

  asio::thread_pool pool_;
  const std::size_t queue_limit_;
  std::atomic<std::size_t> queued_{0};
};

}  // namespace forebay
