#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/deadline.h"

namespace forebay {

/// Bounds what somebody else can make a program write into its log: kAtOnce lines, then one each
/// kEvery. Time is given. Thread-safe.
class LineBrake {
 public:
  static constexpr double kAtOnce = 20;
  static constexpr std::chrono::seconds kEvery{10};

  /// There is something to say: how many have had no line since the last one, when this one is to
  /// have one.
  std::optional<std::uint64_t> MaySay(TimePoint now) {
    const std::scoped_lock lock(mutex_);
    const std::chrono::duration<double> passed = now - last_;
    last_ = now;
    lines_ = std::min(kAtOnce, lines_ + std::max(passed.count(), 0.0) / kEvery.count());
    if (lines_ < 1) {
      ++unsaid_;
      return std::nullopt;
    }
    lines_ -= 1;
    return std::exchange(unsaid_, 0);
  }

 private:
  std::mutex mutex_;
  TimePoint last_;
  double lines_ = kAtOnce;
  std::uint64_t unsaid_ = 0;
};

}  // namespace forebay
