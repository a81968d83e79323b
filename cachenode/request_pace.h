#pragma once

#include <optional>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// What the coordinator lets this node ask of S3 for a link that is throttled.
struct RequestLease {
  Uuid link;
  double requests_per_s = 0;

  bool operator==(const RequestLease&) const = default;
};

/// How many requests a second this node makes for one link that S3 throttles: what the coordinator
/// leased (RequestBudgets), while it says so each second. Before its first word on a throttling,
/// and when it has been silent for kLeaseHolds, the node goes by what S3 says to it alone: from the
/// last lease, or from half of what S3 answered; half at each further refusal, and slowly up again.
/// Pure: time is given. Not thread-safe.
class RequestPace {
 public:
  static constexpr std::chrono::seconds kLeaseHolds{3};
  static constexpr double kLeast = 1;

  void Answered(TimePoint now);
  /// True: the coordinator is to hear of it at once.
  bool Throttled(TimePoint now);
  /// What the coordinator says; nothing: it knows no limit.
  void Lease(std::optional<double> requests_per_s, TimePoint now);

  /// Requests a second; 0 = no limit.
  double Limit(TimePoint now);

 private:
  void TurnWindow(TimePoint now);
  double AnsweredPerSecond() const;

  double limit_ = 0;
  std::optional<double> lease_;
  TimePoint leased_at_;     // the coordinator's last word
  TimePoint throttled_at_;  // last
  TimePoint cut_at_;
  TimePoint grown_at_;
  // Answers in this window and in the one before.
  TimePoint window_;
  double now_ = 0;
  double before_ = 0;
};

}  // namespace forebay
