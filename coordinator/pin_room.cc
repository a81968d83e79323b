#include "coordinator/pin_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "common/base/units.h"
#include "common/model/record_size.h"
#include "coordinator/block_walk.h"

namespace forebay {
namespace {

constexpr std::size_t kStep = 65536;

}  // namespace

Result<std::map<std::string, std::uint64_t>> PinnedDiskBytes(
    const std::vector<PinnedTarget>& targets, const RingTable& ring) {
  std::vector<std::uint64_t> bytes(ring.nodes().size());
  std::uint64_t nowhere = 0;
  for (const PinnedTarget& target : targets) {
    BlockWalk walk(target.snapshot, {target.row});
    for (;;) {
      const Result<std::vector<WalkedBlock>> blocks = walk.Next(kStep);
      if (!blocks) return Fail(blocks.error());
      if (blocks->empty()) break;
      for (const WalkedBlock& block : *blocks) {
        const auto owners = ring.OwnersOf(PartitionOf(block.id));
        const std::uint64_t on_disk = BlockDiskBytes(block.id.length);
        if (owners.empty()) nowhere += on_disk;
        const std::size_t copies = std::min<std::size_t>(target.replicas, owners.size());
        for (const std::uint16_t owner : owners.first(copies)) bytes[owner] += on_disk;
      }
    }
  }
  std::map<std::string, std::uint64_t> by_node;
  for (std::size_t i = 0; i < bytes.size(); ++i) by_node[ring.nodes()[i].id] = bytes[i];
  // Without a node to keep them: they fit nowhere.
  if (nowhere > 0) by_node[""] = nowhere;
  return by_node;
}

Status CheckPinsFit(const std::map<std::string, std::uint64_t>& pinned,
                    const std::vector<NodeSpace>& nodes) {
  std::uint64_t all = 0;
  for (const auto& [node, bytes] : pinned) all += bytes;
  std::uint64_t usable = 0;
  for (const NodeSpace& node : nodes) usable += node.usable_bytes;
  if (all > usable) {
    return Fail(Code::kInvalid,
                fmt::format("with it pins would take {} on disk, and the nodes have {} for blocks; "
                            "nothing was pinned",
                            HumanBytes(all), HumanBytes(usable)));
  }
  for (const NodeSpace& node : nodes) {
    const auto here = pinned.find(node.node_id);
    if (here == pinned.end() || here->second <= node.usable_bytes) continue;
    return Fail(Code::kInvalid,
                fmt::format("with it pins would take {} on the disks of node {}, which has {} for "
                            "blocks; nothing was pinned",
                            HumanBytes(here->second), node.node_id, HumanBytes(node.usable_bytes)));
  }
  return {};
}

}  // namespace forebay
