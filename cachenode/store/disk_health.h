#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "common/base/deadline.h"

namespace forebay {

/// Counts a disk's I/O errors: three within ten seconds mean that it must be left alone (FAULTS,
/// "Disk"). Not thread-safe; the time is the caller's.
class DiskHealth {
 public:
  static constexpr std::size_t kErrors = 3;
  static constexpr std::chrono::seconds kWithin{10};

  /// True when this error is one too many.
  bool Failed(TimePoint now) {
    const TimePoint oldest = recent_[next_];  // the one kErrors - 1 errors ago
    recent_[next_] = now;
    next_ = (next_ + 1) % recent_.size();
    if (seen_ < recent_.size()) {
      ++seen_;
      return false;
    }
    return now - oldest <= kWithin;
  }

 private:
  std::array<TimePoint, kErrors - 1> recent_{};
  std::size_t next_ = 0;
  std::size_t seen_ = 0;
};

}  // namespace forebay
