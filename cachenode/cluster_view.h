#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/model/fill_limits.h"
#include "common/model/link.h"
#include "common/ring/ring.h"

namespace forebay {

/// What a node knows of its cluster: the links and the ring, as the coordinator said last; on disk
/// too, so that a node restarts and serves without one. Thread-safe.
class ClusterView {
 public:
  using Links = std::unordered_map<Uuid, std::shared_ptr<const LinkSpec>>;

  /// Reads `file` when it exists, and keeps it up to date from now on. kCorrupt: it is damaged,
  /// nothing is known then, and the next change replaces it. Blocks on the disk, as all that
  /// changes the view does: those calls fail when the change holds and could not be written.
  Status KeepIn(std::string file);

  /// Calls `changed` after each change to links, ring or limits, on the thread that made it. Set
  /// once, before anything changes the view on another thread.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }

  /// Zero until known.
  Uuid cluster() const;
  Status SetCluster(const Uuid& cluster);

  /// Null when it is not known (yet).
  std::shared_ptr<const LinkSpec> FindLink(const Uuid& id) const;
  std::vector<std::shared_ptr<const LinkSpec>> AllLinks() const;
  std::uint64_t links_version() const;
  Status SetLinks(std::vector<LinkSpec> links, std::uint64_t version);
  /// Told each time the links may have changed.
  Notifier& links_changed() { return links_changed_; }

  /// This node's share of the budget for S3, as the coordinator said last.
  FillLimits fill_limits() const;
  Status SetFillLimits(const FillLimits& limits);

  std::shared_ptr<const RingTable> ring() const;
  /// Of ring(); cheap, it is read for every frame sent.
  std::uint64_t ring_epoch() const { return ring_epoch_.load(std::memory_order_acquire); }
  /// Takes a table; one that is older than ours is ignored. Of the same epoch the later one counts:
  /// the owners are the same, addresses may differ.
  Status OfferRing(RingTable table);

 private:
  Status Save();
  /// After a change: those who follow it, then the disk.
  Status Changed();

  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  Uuid cluster_;
  Links links_;
  std::uint64_t links_version_ = 0;
  FillLimits fill_limits_;
  std::shared_ptr<const RingTable> ring_ = std::make_shared<const RingTable>();

  std::atomic<std::uint64_t> ring_epoch_{0};
  Notifier links_changed_;
  std::function<void()> changed_;
  std::mutex file_mutex_;
  std::string file_;  // guarded by file_mutex_
};

}  // namespace forebay
