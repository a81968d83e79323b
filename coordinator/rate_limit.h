#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/deadline.h"

namespace forebay {

/// Bounds the bytes that a preload has fetched: in t seconds at most rate * (t + kBurst) and one
/// batch more. What is taken beyond is owed; what turned out to cost nothing is given back. Pure:
/// time is given. Not thread-safe.
class RateLimit {
 public:
  static constexpr std::chrono::milliseconds kBurst{500};

  /// 0 = no limit.
  explicit RateLimit(std::uint64_t bytes_per_second, TimePoint now)
      : rate_(static_cast<double>(bytes_per_second)), gathered_at_(now) {}

  /// How long until the next batch may be taken; zero = now.
  Duration Wait(TimePoint now) {
    if (rate_ <= 0) return Duration::zero();
    Gather(now);
    if (tokens_ >= 0) return Duration::zero();
    return std::chrono::ceil<Duration>(std::chrono::duration<double>(-tokens_ / rate_));
  }
  void Take(std::uint64_t bytes, TimePoint now) {
    Gather(now);
    tokens_ -= static_cast<double>(bytes);
  }
  void GiveBack(std::uint64_t bytes) {
    tokens_ = std::min(tokens_ + static_cast<double>(bytes), Most());
  }
  /// How much to take at once, so that the rate is even.
  std::uint64_t BatchBytes(std::uint64_t most) const {
    if (rate_ <= 0) return most;
    return std::min(most, static_cast<std::uint64_t>(Most()) / 2 + 1);
  }

 private:
  double Most() const { return rate_ * std::chrono::duration<double>(kBurst).count(); }
  void Gather(TimePoint now) {
    const double seconds = std::chrono::duration<double>(now - gathered_at_).count();
    tokens_ = std::min(tokens_ + rate_ * std::max(0.0, seconds), Most());
    gathered_at_ = std::max(gathered_at_, now);
  }

  double rate_;
  double tokens_ = 0;
  TimePoint gathered_at_;
};

}  // namespace forebay
