#pragma once

#include <atomic>
#include <cstddef>

namespace forebay {

/// How many bytes of requests that wait for their answers one server keeps, over all connections:
/// a peer's requests cost us memory for as long as they wait. Large ones get half of it alone, so
/// that whoever fills that keeps out no read. Thread-safe.
class RequestRoom {
 public:
  /// A read takes some hundred bytes; what is larger names thousands of blocks.
  static constexpr std::size_t kSmallBytes = std::size_t{4} * 1024;

  explicit RequestRoom(std::size_t most_bytes) : most_(most_bytes) {}

  /// False: there is no room, and nothing was taken.
  bool Take(std::size_t bytes) {
    const std::size_t most = bytes <= kSmallBytes ? most_ : most_ / 2;
    std::size_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (bytes > most || taken > most - bytes) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(std::size_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> taken_{0};
};

}  // namespace forebay
