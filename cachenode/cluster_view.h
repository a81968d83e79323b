#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cachenode/request_pace.h"
#include "common/base/buffer.h"
#include "common/base/notifier.h"
#include "common/base/published.h"
#include "common/base/result.h"
#include "common/model/fence.h"
#include "common/model/fill_limits.h"
#include "common/model/link.h"
#include "common/ring/ring.h"

namespace forebay {

namespace proto {
class NodeClusterState;
}

/// A ring table as it travels.
struct RingBytes {
  std::uint64_t epoch = 0;
  Slice bytes;
};

/// What a node knows of its cluster: the links and the ring, as the coordinator said last; on disk
/// too, so that a node restarts and serves without one. Thread-safe.
class ClusterView {
 public:
  using Links = std::unordered_map<Uuid, std::shared_ptr<const LinkSpec>>;

  /// Reads the newest of `files` that exist, and keeps the view in all of them from now on: one on
  /// each disk, so that the node knows its cluster whichever it loses. kCorrupt: one is damaged and
  /// none is good; nothing is known then, and the next Keep replaces it. Blocks.
  Status KeepIn(std::vector<std::string> files);
  /// Writes the view to its files, if it has any. To be called after changes, which hold in memory
  /// at once: a disk that hangs must not keep the node from knowing its cluster. Fails where not
  /// one of them could be written. Blocks, but never behind another call: that one writes once
  /// more. Before KeepIn it does nothing.
  Status Keep();

  /// Calls `changed` after each change to links, ring or limits, on the thread that made it. Set
  /// once, before anything changes the view on another thread.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }

  /// Zero until known.
  Uuid cluster() const;
  void SetCluster(const Uuid& cluster);

  /// Of the newest coordinator that was heard of, with the links and the ring that are known.
  Fence fence() const;
  /// A coordinator says `fence`: answers whether it is believed, and remembers a newer one from
  /// then on (also in the next Keep). An old one, or a copy of an old state, is not: what it says
  /// may be undone already.
  bool Believe(const Fence& fence);

  /// Null when it is not known (yet). Each read of a block asks: takes no lock. Each link's system
  /// link (system_link.h) is known with it, here and to AllLinks.
  std::shared_ptr<const LinkSpec> FindLink(const Uuid& id) const;
  std::vector<std::shared_ptr<const LinkSpec>> AllLinks() const;
  std::uint64_t links_version() const;
  void SetLinks(std::vector<LinkSpec> links, std::uint64_t version);
  /// Told each time the links may have changed.
  Notifier& links_changed() { return links_changed_; }

  /// This node's share of the budget for S3, as the coordinator said last.
  FillLimits fill_limits() const;
  void SetFillLimits(const FillLimits& limits);

  /// Of the requests to S3, what the coordinator leased last; of links that S3 throttles alone.
  std::vector<RequestLease> leases() const;
  /// Nobody is told of them: they come each second, and go to the brakes at once.
  void SetLeases(std::vector<RequestLease> leases);

  std::shared_ptr<const RingTable> ring() const;
  /// Of ring(); cheap, it is read for every frame sent.
  std::uint64_t ring_epoch() const { return ring_epoch_.load(std::memory_order_acquire); }
  /// ring() as bytes. They are made once for each table, by the first who asks, and all who ask
  /// share them: however many do, and take nothing of it, there is one copy.
  RingBytes ring_bytes() const;
  /// Takes a table; one that is older than ours is ignored. Of the same epoch the later one counts:
  /// the owners are the same, addresses may differ.
  void OfferRing(RingTable table);

 private:
  Status Take(const proto::NodeClusterState& state, RingTable ring, const std::string& file);
  Status KeepOne(std::size_t i, const std::string& path);
  std::string Serialized() const;
  Fence Heard() const;

  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  Uuid cluster_;
  Fence fence_;
  std::uint64_t links_version_ = 0;
  FillLimits fill_limits_;
  std::vector<RequestLease> leases_;
  std::shared_ptr<const RingTable> ring_ = std::make_shared<const RingTable>();

  Published<Links> links_;  // replaced under mutex_
  std::atomic<std::uint64_t> ring_epoch_{0};
  Notifier links_changed_;
  std::function<void()> changed_;
  mutable std::mutex bytes_mutex_;
  // Below: guarded by bytes_mutex_. The last answer of ring_bytes, and what it was made of.
  mutable std::shared_ptr<const RingTable> bytes_of_;
  mutable Slice bytes_;
  std::mutex file_mutex_;
  // Of its own, for a disk that hangs holds up who writes there.
  struct File {
    std::string path;
    bool writing = false;
    bool again = false;
  };
  std::vector<File> files_;  // guarded by file_mutex_
};

}  // namespace forebay
