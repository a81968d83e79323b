#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/link.h"
#include "coordinator/block_walk.h"
#include "coordinator/membership.h"
#include "coordinator/node_calls.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// How much of some files and folders is cached.
struct CacheCount {
  std::vector<CacheTally> tallies;          ///< One for each root.
  std::vector<proto::UnknownNode> unknown;  ///< Nodes that could not be asked.
};

/// What the nodes found when they read their copies again.
struct VerifyCount {
  std::uint64_t verified = 0;
  std::uint64_t corrupt = 0;  ///< Dropped.
};

/// Which of the blocks an eviction takes.
struct EvictRules {
  std::uint32_t unused_for_hours = 0;  ///< Only what nobody has used for so long.
  bool dry_run = false;                ///< None; the sums say what would be.
};

/// Asks the nodes what they hold of a target and tells them to free it. A node that cannot be asked
/// is named: what it holds is unknown, neither absent nor freed. Lives on the io_context that the
/// calls belong to; `offload` outlives it.
class CacheCensus {
 public:
  CacheCensus(NodeCaller call, Offload& offload) : call_(std::move(call)), offload_(offload) {}

  /// A block counts once, wherever it is cached. One that no node has that answered is unknown when
  /// a node that did not is an owner of it, by the ring of now or of the last 24 h.
  Task<Result<CacheCount>> Count(std::shared_ptr<const Snapshot> snapshot,
                                 std::vector<SnapshotRow> roots, Roster roster, Deadline deadline);

  /// The nodes read all they hold of `root` from their disks. kUnavailable: one does not answer.
  Task<Result<VerifyCount>> Verify(std::shared_ptr<const Snapshot> snapshot, SnapshotRow root,
                                   Roster roster, Deadline deadline);

  /// Frees the blocks of `root` at every node; what each one freed, or why it did not.
  Task<Result<std::vector<proto::NodeEvicted>>> Evict(std::shared_ptr<const Snapshot> snapshot,
                                                      SnapshotRow root, Roster roster,
                                                      EvictRules rules, Deadline deadline);

  /// Frees all that the nodes hold of a link, of whatever generation.
  Task<std::vector<proto::NodeEvicted>> EvictLink(Uuid link, Roster roster, EvictRules rules,
                                                  Deadline deadline);

 private:
  class Presence;
  using Blocks = std::shared_ptr<std::vector<WalkedBlock>>;
  using Walk = std::shared_ptr<BlockWalk>;

  Task<Result<Blocks>> NextBlocks(Walk walk, std::size_t limit);
  Task<void> Look(Blocks blocks, std::shared_ptr<Presence> presence, Deadline deadline);

  NodeCaller call_;
  Offload& offload_;
};

}  // namespace forebay
