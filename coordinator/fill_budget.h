#pragma once

#include <cstdint>
#include <mutex>

#include "common/base/result.h"
#include "common/model/fill_limits.h"
#include "coordinator/state_store.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// What a node with `share` of the cluster's capacity (MemberTable::CapacityShare) may ask of S3:
/// the blocks that a node owns, and so its misses, go by capacity.
FillLimits ShareOf(const proto::FillLimitsRecord& record, double share);

/// The cluster's brakes: how much all nodes together may ask of S3, and whether they may at all.
/// Persisted before it shows. Thread-safe; Set blocks (Offload).
class FillBudget {
 public:
  /// `store` outlives it.
  FillBudget(StateStore& store, std::uint64_t fence) : store_(store), fence_(fence) {}

  /// Takes what was persisted. Blocks; before anything serves.
  Status Load();

  /// True when this changed anything. What `request` does not name stays as it is.
  Result<bool> Set(const proto::SetFillLimitsRequest& request, std::int64_t now_unix_s);

  proto::FillLimitsRecord record() const;

 private:
  StateStore& store_;
  const std::uint64_t fence_;
  std::mutex change_mutex_;   // one change at a time, over its write
  mutable std::mutex mutex_;  // guards what follows
  proto::FillLimitsRecord record_;
};

}  // namespace forebay
