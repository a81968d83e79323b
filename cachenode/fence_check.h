#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "cachenode/cluster_view.h"
#include "common/base/result.h"
#include "common/wire/rpc.h"

namespace forebay {

/// Whether a node does what a coordinator asks: one that was replaced, or that was started from an
/// old copy of its state, wants pinned or evicted what may be undone already. Thread-safe.
class FenceCheck {
 public:
  explicit FenceCheck(ClusterView& cluster) : cluster_(cluster) {}

  /// kDenied: `peer` is an old coordinator; the log has a line about each. Everybody else may go
  /// on, and so may a coordinator that does not say which it is.
  Status operator()(const PeerIdentity& peer);
  /// How often it was kDenied.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  ClusterView& cluster_;
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  Fence told_of_;  // guarded by mutex_: whom the last line of the log is about
};

}  // namespace forebay
