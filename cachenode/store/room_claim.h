#pragma once

#include <atomic>
#include <cstdint>

namespace forebay {

/// Room on a disk that was made for one block, and that no other takes before it comes: of many
/// that come to a full disk together each finds what it has made. Ends with its last holder, or
/// when the block has its place. Thread-safe.
class RoomClaim {
 public:
  /// Of the disk `number`, which counts what is claimed in `claimed` and outlives it.
  RoomClaim(std::uint8_t number, std::atomic<std::uint64_t>& claimed, std::uint64_t bytes)
      : number_(number), claimed_(claimed), bytes_(bytes) {
    claimed_.fetch_add(bytes, std::memory_order_relaxed);
  }
  ~RoomClaim() { End(); }
  RoomClaim(const RoomClaim&) = delete;
  RoomClaim& operator=(const RoomClaim&) = delete;

  std::uint8_t disk() const { return number_; }
  /// 0 when it has ended.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void End() { claimed_.fetch_sub(bytes_.exchange(0), std::memory_order_relaxed); }

 private:
  const std::uint8_t number_;
  std::atomic<std::uint64_t>& claimed_;
  std::atomic<std::uint64_t> bytes_;
};

}  // namespace forebay
