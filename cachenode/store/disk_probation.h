#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/deadline.h"

namespace forebay {

/// When a disk that was taken out of service is probed, and when it has earned to come back. One
/// that fails again soon after it came back must prove itself twice as long, so that a half-dead
/// disk does not come and go. Pure: time is given. Not thread-safe.
class DiskProbation {
 public:
  static constexpr std::chrono::seconds kProbeEvery{5};
  static constexpr int kCleanProbes = 3;      ///< In a row, at first …
  static constexpr int kMostProbes = 3 * 64;  ///< … and at most: 16 minutes.
  static constexpr std::chrono::minutes kSoon{10};

  /// Asked while the disk is out of service. True: it is to be probed now.
  bool Due(TimePoint now) {
    if (needed_ == 0) {
      needed_ = now < forgiven_at_ ? std::min(2 * last_needed_, kMostProbes) : kCleanProbes;
      clean_ = 0;
      next_ = now + kProbeEvery;
    }
    return now >= next_;
  }

  /// What the probe found. True: the disk may come back.
  bool Probed(bool clean, TimePoint now) {
    next_ = now + kProbeEvery;
    clean_ = clean ? clean_ + 1 : 0;
    if (clean_ < needed_) return false;
    last_needed_ = needed_;
    needed_ = 0;
    forgiven_at_ = now + kSoon;
    return true;
  }

 private:
  int needed_ = 0;  ///< 0 = the disk is in service, as far as this knows.
  int clean_ = 0;
  int last_needed_ = 0;
  TimePoint next_;
  TimePoint forgiven_at_;
};

}  // namespace forebay
