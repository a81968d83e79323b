#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/token_bucket.h"

namespace forebay {

/// Bounds what machines without a certificate cost a coordinator: anybody on the network may ask to
/// join, and each question is looked up in the state. Pure: time is given. On one thread.
class JoinBrake {
 public:
  /// A thousand machines that start at once have joined after ten seconds.
  static constexpr double kJoinsPerSecond = 100;
  /// Of refusals, in the log.
  static constexpr double kLinesPerSecond = 1;

  explicit JoinBrake(TimePoint now) {
    asks_.SetRate(kJoinsPerSecond, now);
    lines_.SetRate(kLinesPerSecond, now);
  }

  /// Whether one more may ask now; whoever may not is to come again.
  bool MayAsk(TimePoint now) {
    if (asks_.Wait(now) > Duration::zero()) return false;
    asks_.Take(1, now);
    return true;
  }

  /// One was refused: the number of refusals that have had no line since the last one, when this
  /// one is to have a line.
  std::optional<std::uint64_t> MaySay(TimePoint now) {
    if (lines_.Wait(now) > Duration::zero()) {
      ++unsaid_;
      return std::nullopt;
    }
    lines_.Take(1, now);
    return std::exchange(unsaid_, 0);
  }

 private:
  TokenBucket asks_;
  TokenBucket lines_;
  std::uint64_t unsaid_ = 0;
};

}  // namespace forebay
