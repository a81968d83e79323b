#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "common/base/deadline.h"

namespace forebay {

/// How many requests a second one bucket and prefix takes from the whole cluster. Nobody says so:
/// it is found out. No limit until S3 first says "slow down"; then 0.8 of what it answered, and
/// 2.5 times more each second until it says so again. Then and later the limit falls once each two
/// seconds by how much is refused, to 0.9, 0.8 or half of what was answered; when nothing is, it
/// rises to where the throttling began within four seconds, and beyond that ever faster, so that an
/// origin that got ten times as fast is used within ten seconds. It goes when it has been far above
/// what is asked for. Pure: time is given. Not thread-safe.
class RequestRate {
 public:
  /// A cluster that is refused everything still asks so often whether that is over.
  static constexpr double kLeast = 5;

  /// The requests since the call before, about a second ago.
  struct Seen {
    double answered = 0;
    double throttled = 0;
    bool some_wait = false;  ///< More was asked for than the limit let through.
  };
  void Observe(const Seen& seen, TimePoint now);

  /// Requests a second; nothing: no limit.
  std::optional<double> limit() const { return limit_; }

 private:
  void Cut(double answered, double refused, TimePoint now);
  void Grow(double seconds);
  double PeakSince(TimePoint since) const;

  std::optional<double> limit_;
  double target_ = 0;      // where throttling began
  double step_ = 0;        // of the last growth beyond it
  int quiet_ = 0;          // observations without throttling
  bool starting_ = false;  // S3 has refused nothing since the first limit
  TimePoint observed_at_;
  TimePoint cut_at_;
  TimePoint idle_since_;  // the limit has been far above what is asked for; none = it is not
  std::deque<std::pair<TimePoint, double>> answered_;  // per second, of the last while
};

}  // namespace forebay
