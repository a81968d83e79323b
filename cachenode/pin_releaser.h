#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cachenode/cluster_view.h"
#include "cachenode/store/block_store.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/ring/ring.h"
#include "common/wire/client_pool.h"
#include "common/wire/handshake.h"

namespace forebay {

/// When pinned copies that belong elsewhere are looked for.
struct PinReleaseRules {
  std::chrono::milliseconds look_every = std::chrono::minutes(10);
  /// Copies that are read are left alone: those of hot blocks are there to be read.
  std::chrono::hours unused_for{1};
};

struct PinReleaserOptions {
  std::string self;         ///< This node's id.
  Credentials credentials;  ///< As a node.
  Duration silence = kSilence;
  PinReleaseRules rules;
};

/// Gives up pinned blocks that this node does not own, or does not keep a copy of, when all nodes
/// that do have them, pinned as well: what a change of the ring or a hot hour has left, and which
/// nothing else would ever evict. Asks those owners; S3 never, and nothing is copied
/// (docs/adr/0006). Has an event loop of its own.
///
/// A decision holds in one ring epoch alone, and an owner says that it has a block only while it is
/// an owner by its own ring. So nodes with different rings never give up a block to each other.
class PinReleaser {
 public:
  /// `cluster` and `store` outlive it.
  PinReleaser(PinReleaserOptions options, ClusterView& cluster, BlockStore& store);
  ~PinReleaser();  ///< Calls Stop().
  PinReleaser(const PinReleaser&) = delete;
  PinReleaser& operator=(const PinReleaser&) = delete;

  void Start();
  /// Questions under way end, and nothing more is released. Idempotent, as is Stop, which also ends
  /// the loop.
  void Interrupt();
  void Stop();

 private:
  using Blocks = std::vector<BlockId>;
  using Ring = std::shared_ptr<const RingTable>;
  using LinkPtr = std::shared_ptr<const LinkSpec>;

  Task<void> Run();
  Task<void> Look();
  /// True: all of the link was looked at, in this ring.
  Task<bool> LookAt(LinkPtr link, Ring ring);
  /// Those of `blocks` that each owner of theirs that is to keep them has.
  Task<Blocks> OwnedElsewhere(LinkPtr link, Ring ring, Blocks blocks);
  /// Adds one for each that the node has as an owner.
  Task<void> Ask(LinkPtr link, const NodeInfo* node, const Blocks* blocks,
                 std::vector<std::uint32_t> asked, std::vector<std::uint8_t>* found);
  bool IsOver(const RingTable& ring) const;

  const PinReleaserOptions options_;
  ClusterView& cluster_;
  BlockStore& store_;
  std::atomic<bool> stopped_{false};
  IoPool io_{"pins", 1};
  std::unique_ptr<ClientPool> pool_;
};

}  // namespace forebay
