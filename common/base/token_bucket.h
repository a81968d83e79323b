#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/deadline.h"

namespace forebay {

/// Bounds how much is taken in a time: in any window of t seconds at most rate * (t + kBurst) and
/// one piece more. A piece of any size may be taken when nothing is owed; what it costs beyond the
/// tokens is owed. Pure: time is given. Not thread-safe.
class TokenBucket {
 public:
  /// What gathers while nobody takes: little, so that a pause does not end in a burst.
  static constexpr std::chrono::milliseconds kBurst{250};

  /// 0 = no bound.
  void SetRate(double per_second, TimePoint now) {
    Gather(now);
    rate_ = per_second;
    tokens_ = std::min(tokens_, Most());
  }
  double rate() const { return rate_; }

  /// How long until the next piece may be taken; zero or less = now.
  Duration Wait(TimePoint now) {
    if (rate_ <= 0) return Duration::zero();
    Gather(now);
    if (tokens_ >= 0) return Duration::zero();
    return std::chrono::ceil<Duration>(std::chrono::duration<double>(-tokens_ / rate_));
  }

  void Take(double amount, TimePoint now) {
    if (rate_ <= 0) return;
    Gather(now);
    tokens_ -= amount;
  }

 private:
  double Most() const { return rate_ * std::chrono::duration<double>(kBurst).count(); }
  void Gather(TimePoint now) {
    if (now > gathered_at_ && rate_ > 0 && gathered_at_ != TimePoint()) {
      tokens_ += rate_ * std::chrono::duration<double>(now - gathered_at_).count();
      tokens_ = std::min(tokens_, Most());
    }
    gathered_at_ = std::max(gathered_at_, now);
  }

  double rate_ = 0;
  double tokens_ = 0;
  TimePoint gathered_at_;
};

}  // namespace forebay
