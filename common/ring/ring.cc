#include "common/ring/ring.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "common/model/link.h"
#include "common/ring/placement.h"

namespace forebay {

static_assert(kMostReplicas <= kOwnersPerPartition);

namespace {

bool MayOwn(const NodeInfo& node) {
  return node.state == NodeState::kUp || node.state == NodeState::kSuspect;
}

// The members in the table's order: ascending by id, so that the order of the argument is nothing.
std::vector<NodeInfo> InTableOrder(std::vector<NodeInfo> members) {
  std::erase_if(members, [](const NodeInfo& node) { return node.state == NodeState::kOut; });
  std::ranges::sort(members, {}, &NodeInfo::id);
  if (members.size() > kMaxRingNodes) members.resize(kMaxRingNodes);
  return members;
}

// A node that has told no capacity yet weighs next to nothing, and as much as the others where
// nobody has.
std::vector<std::uint64_t> Weights(const std::vector<NodeInfo>& nodes) {
  std::vector<std::uint64_t> weights;
  weights.reserve(nodes.size());
  for (const NodeInfo& node : nodes) {
    weights.push_back(MayOwn(node) ? std::max<std::uint64_t>(node.capacity_bytes, 1) : 0);
  }
  return weights;
}

std::vector<PartitionHistory> HistoryOf(const RingTable& old, const std::vector<NodeInfo>& nodes) {
  std::unordered_map<std::string_view, std::uint16_t> index;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    index.emplace(nodes[i].id, static_cast<std::uint16_t>(i));
  }
  const auto find = [&index](std::string_view id) {
    const auto it = index.find(id);
    return it == index.end() ? kNoOwner : it->second;
  };
  std::vector<PartitionHistory> history(kPartitions);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    history[p].owners.fill(kNoOwner);
    history[p].former.fill(kNoOwner);
    std::size_t rank = 0;
    for (const std::uint16_t owner : old.OwnersOf(p)) {
      history[p].owners[rank++] = find(old.nodes()[owner].id);
    }
    std::size_t age = 0;
    for (const PreviousOwner& owner : old.PreviousOwnersOf(p)) {
      history[p].former[age++] = find(owner.node_id);
    }
  }
  return history;
}

// What a partition remembers after its first owner was `old_owner` and now is `new_owner` (either
// may be "").
std::vector<PreviousOwner> Remember(std::span<const PreviousOwner> before,
                                    std::string_view old_owner, std::string_view new_owner,
                                    std::uint64_t epoch, std::int64_t now_unix_s) {
  std::vector<PreviousOwner> after;
  if (!old_owner.empty() && old_owner != new_owner) {
    after.push_back(PreviousOwner{std::string(old_owner), epoch, now_unix_s});
  }
  for (const PreviousOwner& owner : before) {
    if (after.size() == kPreviousOwners) break;
    if (owner.node_id == old_owner || owner.node_id == new_owner) continue;
    if (now_unix_s - owner.left_unix_s >= kPreviousOwnerMemory) continue;
    after.push_back(owner);
  }
  return after;
}

}  // namespace

RingTable RingTable::Next(const RingTable& old, std::vector<NodeInfo> members,
                          std::int64_t now_unix_s) {
  RingTable next;
  next.epoch_ = old.epoch_ + 1;
  next.nodes_ = InTableOrder(std::move(members));
  const std::vector<std::uint64_t> weights = Weights(next.nodes_);
  if (std::ranges::any_of(weights, [](std::uint64_t weight) { return weight > 0; })) {
    const std::vector<PartitionHistory> history = HistoryOf(old, next.nodes_);
    next.owners_ = Placement(next.nodes_, weights, history).Run();
  }

  const auto first_owner = [](const RingTable& table, std::uint32_t partition) {
    const auto owners = table.OwnersOf(partition);
    return owners.empty() ? std::string_view() : std::string_view(table.nodes_[owners[0]].id);
  };
  next.previous_.resize(kPartitions);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    next.previous_[p] = Remember(old.PreviousOwnersOf(p), first_owner(old, p), first_owner(next, p),
                                 next.epoch_, now_unix_s);
  }
  if (std::ranges::all_of(next.previous_, [](const auto& owners) { return owners.empty(); })) {
    next.previous_.clear();
  }
  return next;
}

RingTable RingTable::AtEpoch(std::uint64_t epoch) const {
  RingTable table = *this;
  table.epoch_ = epoch;
  return table;
}

RingTable RingTable::WithNodeDetails(const std::vector<NodeInfo>& nodes) const {
  RingTable table = *this;
  for (const NodeInfo& details : nodes) {
    const auto it = std::ranges::lower_bound(table.nodes_, details.id, {}, &NodeInfo::id);
    if (it == table.nodes_.end() || it->id != details.id) continue;
    const std::uint64_t weight = it->capacity_bytes;
    *it = details;
    it->capacity_bytes = weight;
  }
  return table;
}

std::span<const std::uint16_t> RingTable::OwnersOf(std::uint32_t partition) const {
  if (owners_.empty()) return {};
  const std::span<const std::uint16_t> row =
      std::span(owners_).subspan(partition * kOwnersPerPartition, kOwnersPerPartition);
  return row.first(static_cast<std::size_t>(std::ranges::find(row, kNoOwner) - row.begin()));
}

std::optional<std::size_t> RingTable::RankOf(std::uint32_t partition,
                                             std::string_view node_id) const {
  const std::span<const std::uint16_t> owners = OwnersOf(partition);
  for (std::size_t rank = 0; rank < owners.size(); ++rank) {
    if (nodes_[owners[rank]].id == node_id) return rank;
  }
  return std::nullopt;
}

std::span<const PreviousOwner> RingTable::PreviousOwnersOf(std::uint32_t partition) const {
  if (previous_.empty()) return {};
  return previous_[partition];
}

const NodeInfo* RingTable::Find(std::string_view node_id) const {
  const auto it = std::ranges::lower_bound(nodes_, node_id, {}, &NodeInfo::id);
  return it != nodes_.end() && it->id == node_id ? &*it : nullptr;
}

}  // namespace forebay
