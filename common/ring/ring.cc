#include "common/ring/ring.h"

#include <algorithm>
#include <utility>

#include "common/model/link.h"
#include "common/ring/numbering.h"
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

// Where `nodes` has who is at each place of `old`; kNoOwner: nowhere.
std::vector<std::uint16_t> PlacesIn(const std::vector<NodeInfo>& nodes,
                                    const std::vector<NodeInfo>& old) {
  std::vector<std::uint16_t> places;
  places.reserve(old.size());
  for (const NodeInfo& node : old) {
    const auto it = std::ranges::lower_bound(nodes, node.id, {}, &NodeInfo::id);
    const bool found = it != nodes.end() && it->id == node.id;
    places.push_back(found ? static_cast<std::uint16_t>(it - nodes.begin()) : kNoOwner);
  }
  return places;
}

// What a partition remembers after its first owner was `old_owner` and now is `new_owner` (either
// may be "").
std::vector<PreviousOwner> Remembered(std::span<const PreviousOwner> before,
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

const std::shared_ptr<const RingTable::Assigned>& RingTable::Nothing() {
  static const auto kNothing = std::make_shared<const Assigned>();
  return kNothing;
}

std::vector<PartitionHistory> RingTable::BroughtTo(const std::vector<NodeInfo>& nodes) const {
  const std::vector<History>& histories = assigned_->histories;
  const std::vector<std::uint32_t>& history_of = assigned_->history_of;
  PartitionHistory nothing;
  nothing.owners.fill(kNoOwner);
  nothing.former.fill(kNoOwner);
  nothing.until.fill(0);
  std::vector<PartitionHistory> formers(std::max<std::size_t>(histories.size(), 1), nothing);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    std::size_t age = 0;
    for (const PreviousOwner& owner : histories[i]) {
      const auto it = std::ranges::lower_bound(nodes, owner.node_id, {}, &NodeInfo::id);
      const bool found = it != nodes.end() && it->id == owner.node_id;
      formers[i].until[age] = owner.until_epoch;
      formers[i].former[age++] = found ? static_cast<std::uint16_t>(it - nodes.begin()) : kNoOwner;
    }
  }
  const std::vector<std::uint16_t> places = PlacesIn(nodes, nodes_);
  std::vector<PartitionHistory> brought(kPartitions);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    brought[p] = formers[history_of.empty() ? 0 : history_of[p]];
    std::size_t rank = 0;
    for (const std::uint16_t owner : OwnersOf(p)) brought[p].owners[rank++] = places[owner];
  }
  return brought;
}

// The partitions that remembered the same and go from the same first owner to the same remember the
// same: few of 65,536 are worked out.
void RingTable::Remember(const RingTable& old, std::int64_t now_unix_s, Assigned& assigned) const {
  const auto first_owner = [](const Assigned& of, std::uint32_t partition) {
    return of.owners.empty() ? kNoOwner : of.owners[partition * kOwnersPerPartition];
  };
  const auto name_of = [](const RingTable& table, std::uint16_t node) {
    return node == kNoOwner ? std::string_view() : std::string_view(table.nodes_[node].id);
  };
  Numbering<1> numbering;
  const Assigned& before = *old.assigned_;
  assigned.history_of.resize(kPartitions);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    const std::uint32_t remembered = before.history_of.empty() ? 0 : before.history_of[p];
    const std::uint16_t from = first_owner(before, p);
    const std::uint16_t to = first_owner(assigned, p);
    const std::uint64_t key = std::uint64_t{remembered} << 32U | std::uint32_t{from} << 16U | to;
    const auto [number, is_new] = numbering.Of({key});
    assigned.history_of[p] = number;
    if (!is_new) continue;
    assigned.histories.push_back(Remembered(old.PreviousOwnersOf(p), name_of(old, from),
                                            name_of(*this, to), epoch_, now_unix_s));
  }
  const auto is_empty = [](const History& history) { return history.empty(); };
  if (std::ranges::all_of(assigned.histories, is_empty)) {
    assigned.histories.clear();
    assigned.history_of.clear();
  }
}

RingTable RingTable::Next(const RingTable& old, std::vector<NodeInfo> members,
                          std::int64_t now_unix_s) {
  RingTable next;
  next.epoch_ = old.epoch_ + 1;
  next.nodes_ = InTableOrder(std::move(members));
  Assigned assigned;
  const std::vector<std::uint64_t> weights = Weights(next.nodes_);
  if (std::ranges::any_of(weights, [](std::uint64_t weight) { return weight > 0; })) {
    const std::vector<PartitionHistory> history = old.BroughtTo(next.nodes_);
    assigned.owners = Placement(next.nodes_, weights, history).Run();
  }
  next.Remember(old, now_unix_s, assigned);
  next.assigned_ = std::make_shared<const Assigned>(std::move(assigned));
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
  if (empty()) return {};
  const std::span<const std::uint16_t> row =
      std::span(assigned_->owners).subspan(partition * kOwnersPerPartition, kOwnersPerPartition);
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
  if (assigned_->history_of.empty()) return {};
  return assigned_->histories[assigned_->history_of[partition]];
}

const NodeInfo* RingTable::Find(std::string_view node_id) const {
  const auto it = std::ranges::lower_bound(nodes_, node_id, {}, &NodeInfo::id);
  return it != nodes_.end() && it->id == node_id ? &*it : nullptr;
}

}  // namespace forebay
