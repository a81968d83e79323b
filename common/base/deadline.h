#pragma once

#include <algorithm>
#include <chrono>

namespace forebay {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

/// The moment by which an operation must have answered. Every wait takes one (DESIGN section 2,
/// promise 7).
class Deadline {
 public:
  explicit Deadline(TimePoint at) : at_(at) {}
  static Deadline After(Duration d) { return Deadline(Clock::now() + d); }

  TimePoint at() const { return at_; }
  bool Expired(TimePoint now = Clock::now()) const { return now >= at_; }

  /// Time left, never negative.
  Duration Remaining(TimePoint now = Clock::now()) const {
    return std::max(Duration::zero(), at_ - now);
  }
  std::chrono::milliseconds RemainingMs(TimePoint now = Clock::now()) const {
    return std::chrono::ceil<std::chrono::milliseconds>(Remaining(now));
  }

  /// The earlier of this and `d` from now: a step of an operation that has less time than the
  /// whole.
  Deadline AtMost(Duration d) const { return Deadline(std::min(at_, Clock::now() + d)); }

 private:
  TimePoint at_;
};

}  // namespace forebay
