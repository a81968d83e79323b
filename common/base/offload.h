#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <optional>
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
    std::optional<std::invoke_result_t<Work>> result;
    const bool ran = co_await Call([&] { result.emplace(work()); });
    if (!ran) co_return Fail(Code::kOverloaded, "too much disk work is waiting");
    co_return *std::move(result);
  }

 private:
  /// What is the same for every kind of work, compiled once. False: not called, too much waits.
  /// `work` refers to the caller's frame, which lives until it is resumed.
  Task<bool> Call(std::function<void()> work);

  asio::thread_pool pool_;
  const std::size_t queue_limit_;
  std::atomic<std::size_t> queued_{0};
};

}  // namespace forebay
