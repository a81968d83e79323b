#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace forebay {

/// Lets many threads look at something without a lock, and one wait until nobody can still look at
/// what it has taken out. Readers are never kept waiting; WaitForReaders is for threads that may
/// block. Thread-safe, but for WaitForReaders: one call at a time.
class ReadersGate {
 public:
  class Pass {
   public:
    explicit Pass(const ReadersGate& gate)
        : count_(gate.readers_[gate.side_.load(std::memory_order_relaxed)]) {
      count_.fetch_add(1, std::memory_order_acq_rel);
    }
    ~Pass() { count_.fetch_sub(1, std::memory_order_acq_rel); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  /// Returns when each reader that may have seen the state before the caller's last change has
  /// left. New ones are sent to the side that is not waited for, so that it ends.
  void WaitForReaders() {
    for (const std::size_t side : {0U, 1U}) {
      side_.store(1 - side, std::memory_order_relaxed);
      // An exchange, not a look: whoever enters this side later enters after it, and so sees the
      // change.
      for (std::uint32_t nobody = 0; !readers_[side].compare_exchange_weak(
               nobody, 0, std::memory_order_acq_rel, std::memory_order_acquire);
           nobody = 0) {
        std::this_thread::yield();
      }
    }
  }

 private:
  mutable std::array<std::atomic<std::uint32_t>, 2> readers_{};
  std::atomic<std::size_t> side_{0};
};

}  // namespace forebay
