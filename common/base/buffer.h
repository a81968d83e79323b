#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"

namespace forebay {

using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;

/// An owned, uninitialised run of bytes. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  ByteSpan span() { return {data_.get(), size_}; }
  ByteView view() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// A read-only part of a buffer that somebody shares; keeps the whole buffer alive.
struct Slice {
  std::shared_ptr<const void> owner;
  ByteView bytes;

  static Slice Of(std::shared_ptr<const Buffer> buffer) {
    ByteView view = buffer->view();
    return Slice{std::move(buffer), view};
  }
  Slice Sub(std::size_t offset, std::size_t length) const {
    return Slice{owner, bytes.subspan(offset, length)};
  }
};

/// A bound on the bytes that may be in use at once, and their count. Thread-safe. At teardown
/// in_use() is zero: the owner checks it (tests assert it).
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// Gives the bytes back when it ends. Empty after a move.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      if (this != &other) {
        Release();
        budget_ = std::exchange(other.budget_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
      }
      return *this;
    }
    ~Reservation() { Release(); }
    void Release();
    std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  /// kOverloaded when the limit would be passed. A request larger than the limit alone is granted
  /// when nothing else is in use, so that it can never wait for ever.
  Result<Reservation> TryReserve(std::size_t bytes);

  /// Waits for room; kTimeout at the deadline.
  Task<Result<Reservation>> Reserve(std::size_t bytes, Deadline deadline);

  std::size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::size_t limit() const { return limit_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> in_use_{0};
  Notifier freed_;
};

}  // namespace forebay
