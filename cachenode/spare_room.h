#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace forebay {

/// Bytes on disk that spare fills under way will take. They look for room before they ask S3, so
/// each must know of the others. Thread-safe.
class SpareRoom {
  using Sum = std::atomic<std::uint64_t>;

 public:
  /// Gives its bytes back when it ends.
  class Hold {
   public:
    Hold() = default;
    Hold(std::shared_ptr<Sum> sum, std::uint64_t bytes) : sum_(std::move(sum)), bytes_(bytes) {}
    Hold(Hold&& other) noexcept : sum_(std::move(other.sum_)), bytes_(other.bytes_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(sum_, other.sum_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold() {
      if (sum_) sum_->fetch_sub(bytes_, std::memory_order_relaxed);
    }

   private:
    std::shared_ptr<Sum> sum_;
    std::uint64_t bytes_ = 0;
  };

  Hold Take(std::uint64_t bytes) {
    sum_->fetch_add(bytes, std::memory_order_relaxed);
    return Hold(sum_, bytes);
  }
  /// Of all holds.
  std::uint64_t taken() const { return sum_->load(std::memory_order_relaxed); }

 private:
  // A hold may be dropped by whoever was the last to know of its fill.
  const std::shared_ptr<Sum> sum_ = std::make_shared<Sum>(0);
};

}  // namespace forebay
