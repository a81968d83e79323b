#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/token_bucket.h"
#include "common/s3/request_governor.h"
#include "coordinator/request_budgets.h"

namespace forebay {

/// Counts the coordinator's own requests to S3 and keeps them to its part of the cluster's budget,
/// while a place is throttled. Thread-safe.
class OwnRequests final : public RequestGovernor {
 public:
  /// kOverloaded: the lease let nothing through until the deadline.
  Task<Status> Pass(LinkOrigin origin, Deadline deadline) override;
  void NoteThrottled(const LinkOrigin& origin) override;

  /// Of every place that was ever asked: as many as there were links.
  std::vector<OwnUse> Uses() const;
  /// What RequestBudgets says now: places that are not named have no limit.
  void SetLeases(const std::map<S3Place, double>& leases);

 private:
  struct OfPlace {
    std::uint64_t requests = 0;
    std::uint64_t throttled = 0;
    std::uint64_t waiting = 0;
    TokenBucket bucket;
  };
  class Waits;

  /// Counts a request that may be made now; else how long it waits at least.
  std::optional<Duration> TryPass(const S3Place& place);

  mutable std::mutex mutex_;
  std::map<S3Place, OfPlace> places_;
};

}  // namespace forebay
