#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/link.h"
#include "coordinator/request_rate.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Divides `limit` among askers that want `wanted`: nobody gets more than it wants while another
/// one wants more, who want more get the same, and what nobody wants is spread evenly. The sum is
/// `limit`.
std::vector<double> FairShares(double limit, const std::vector<double>& wanted);

/// What S3 counts requests by.
struct S3Place {
  std::string endpoint;
  std::string bucket;
  std::string prefix;
  auto operator<=>(const S3Place&) const = default;

  static S3Place Of(const LinkOrigin& origin) {
    return {origin.endpoint, origin.bucket, origin.prefix};
  }
};

/// What the coordinator itself asked of a place. Totals of its process.
struct OwnUse {
  S3Place place;
  std::uint64_t requests = 0;
  std::uint64_t throttled = 0;  ///< Of these, answered with "slow down".
  std::uint64_t waiting = 0;    ///< That its lease holds back now.
};

/// What the whole cluster may ask of each bucket and prefix that throttles it, found out from what
/// the nodes report and the coordinator asks itself (RequestRate), and leased to them by what each
/// of them wants. Several links to one prefix share its budget. Thread-safe.
class RequestBudgets {
 public:
  /// What one node, alive as `incarnation`, says in a heartbeat. Totals since it began.
  void Report(const proto::HeartbeatRequest& heartbeat, TimePoint now);
  /// What the coordinator's own requests come to, of all places that it ever asked.
  void ReportOwn(const std::vector<OwnUse>& uses, TimePoint now);

  /// Once a second. `links` are all that there are.
  void Tick(const std::vector<LinkSpec>& links, TimePoint now, std::int64_t now_unix_s);

  /// What the node may ask, for each link with a budget.
  std::vector<proto::RequestLease> LeasesOf(const std::string& node) const;

  /// Requests a second that the coordinator may make itself, for each place with a budget.
  std::map<S3Place, double> OwnLeases() const;

  /// Requests a second that the whole cluster keeps to; 0 = S3 does not throttle the place.
  double LimitOf(const LinkOrigin& origin) const;
  /// The places that are throttled now.
  std::vector<proto::ThrottledPlace> Throttled() const;

 private:
  /// Of one node over one link.
  struct Use {
    std::uint64_t incarnation = 0;
    // Totals, as reported last and as seen by the last Tick.
    std::uint64_t requests = 0;
    std::uint64_t throttled = 0;
    std::uint64_t requests_seen = 0;
    std::uint64_t throttled_seen = 0;
    double waiting = 0;
    double wanted = 0;  // requests a second, smoothed
    TimePoint reported_at;
    double lease = 0;
  };
  struct Asker {
    std::string node;
    Uuid link;
    auto operator<=>(const Asker&) const = default;
  };
  struct Node {
    std::uint64_t incarnation = 0;
    TimePoint reported_at;
  };
  struct Budget {
    RequestRate rate;
    std::int64_t since_unix_s = 0;  // of the limit
  };

  void TickPlace(const S3Place& place, const std::vector<Use*>& uses, TimePoint now,
                 std::int64_t now_unix_s);

  mutable std::mutex mutex_;
  std::map<Asker, Use> uses_;
  std::map<S3Place, Use> own_;
  std::map<std::string, Node> nodes_;  // that say something
  std::map<S3Place, Budget> budgets_;
  std::map<Uuid, S3Place> places_;  // of the links, at the last Tick
  TimePoint ticked_at_;
};

}  // namespace forebay
