#pragma once

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/asio.h"

namespace boost::asio {
class io_context;
}

namespace forebay {

/// One io_context and one thread per core: a connection stays on the context that accepted or
/// opened it, so that a hit never leaves its core (DESIGN 6.5). Owned by the composition root;
/// everything that runs on it is stopped before it.
class IoPool {
 public:
  /// `threads` >= 1; `name` (at most 12 bytes) is shown by `top -H`, followed by the thread's
  /// number.
  IoPool(std::string name, std::size_t threads);
  ~IoPool();  ///< Calls Stop().
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  void Start();
  /// Lets running handlers end, drops the rest and joins. Idempotent; not from one of the pool's
  /// own threads.
  void Stop();

  std::size_t size() const { return contexts_.size(); }
  /// As `top -H` shows it.
  std::string ThreadName(std::size_t i) const;
  asio::io_context& At(std::size_t i) { return *contexts_[i % contexts_.size()]; }
  /// Round robin; any thread.
  asio::io_context& Next();

 private:
  struct WorkGuards;
  std::string name_;
  std::vector<std::unique_ptr<asio::io_context>> contexts_;
  std::unique_ptr<WorkGuards> guards_;
  std::vector<std::thread> threads_;
  std::atomic<std::size_t> next_{0};
};

/// Suspends the calling coroutine for `d`; false when it was cancelled before.
Task<bool> SleepFor(std::chrono::steady_clock::duration d);

/// Runs `task` on `executor` without waiting for it. An exception that escapes it is a bug: it is
/// logged and aborts.
void Spawn(const asio::any_io_executor& executor, Task<void> task);
void Spawn(asio::io_context& context, Task<void> task);

/// The same for a task that can be ended: what is emitted on `cancel`'s signal, on `executor`, ends
/// its waits, and it may then throw operation_aborted. `ended` runs behind it.
void Spawn(const asio::any_io_executor& executor, Task<void> task, asio::cancellation_slot cancel,
           std::function<void()> ended);

}  // namespace forebay
