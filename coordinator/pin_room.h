#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ring/ring.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// A file or folder of which every block is to stay cached.
struct PinnedTarget {
  std::shared_ptr<const Snapshot> snapshot;
  SnapshotRow row;
  std::uint32_t replicas = 1;  ///< Copies of each block, which are pinned as well.
};

/// What the blocks of `targets` take on the disk of each node, where `ring` puts them. A block of
/// two targets counts twice. Walks all of them: call it on Offload.
Result<std::map<std::string, std::uint64_t>> PinnedDiskBytes(
    const std::vector<PinnedTarget>& targets, const RingTable& ring);

/// A node, and what blocks may take of its disks.
struct NodeSpace {
  std::string node_id;
  std::uint64_t usable_bytes = 0;
};

/// kInvalid with both numbers where `pinned` does not fit into the cluster, or not into a node of
/// it: a pin that is taken must keep what it promises.
Status CheckPinsFit(const std::map<std::string, std::uint64_t>& pinned,
                    const std::vector<NodeSpace>& nodes);

}  // namespace forebay
