#include "common/ring/placement.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/ring/fair_share.h"

namespace forebay {
namespace {

using Wide = unsigned __int128;

// Percent of its share of a rank that a fallback owner may have, rounded up: with it the copies of
// a link with replicas are spread as evenly as first owners are, and a change of one member moves
// few fallbacks (docs/adr/0029).
constexpr std::uint64_t kFallbackSeatsPercent = 101;

}  // namespace

Placement::Placement(std::span<const NodeInfo> nodes, std::span<const std::uint64_t> weights,
                     std::span<const PartitionHistory> history)
    : nodes_(nodes),
      weights_(weights),
      history_(history),
      rendezvous_(nodes, weights),
      owners_(std::size_t{kPartitions} * kOwnersPerPartition, kNoOwner) {
  for (auto& counts : held_) counts.assign(nodes.size(), 0);
  std::map<std::string_view, std::uint16_t> numbers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::uint16_t number = 0;
    if (weights[i] > 0) {
      const auto next = static_cast<std::uint16_t>(numbers.size());
      number = numbers.try_emplace(nodes[i].zone, next).first->second;
    }
    zones_.push_back(number);
  }
  zoned_ = numbers.size() > 1;
}

std::vector<std::uint16_t> Placement::Run() {
  KeepFirstOwners();
  ShedSurplus();
  GiveToThoseWhoMayHoldIt();
  if (zoned_) {
    FillByRendezvous(1);
    for (std::size_t rank = 1; rank < kOwnersPerPartition; ++rank) SpreadOverZones(rank);
  }
  KeepFallbacks();
  FillByRendezvous(kOwnersPerPartition);
  return std::move(owners_);
}

bool Placement::Owns(std::size_t partition, std::uint16_t node) const {
  const auto row = owners_.begin() + static_cast<std::ptrdiff_t>(partition * kOwnersPerPartition);
  return std::find(row, row + kOwnersPerPartition, node) != row + kOwnersPerPartition;
}

void Placement::Take(std::size_t partition, std::size_t rank, std::uint16_t node) {
  Owner(partition, rank) = node;
  ++held_[rank][node];
}

// Everybody keeps what he has, as far as he may own at all; then the shares are known.
void Placement::KeepFirstOwners() {
  for (std::size_t p = 0; p < kPartitions; ++p) {
    const std::uint16_t node = history_[p].owners[0];
    if (node != kNoOwner && weights_[node] > 0) Take(p, 0, node);
  }
  seats_[0] = FairShares(weights_, held_[0]);
  const Wide total = std::accumulate(weights_.begin(), weights_.end(), Wide{0});
  for (std::size_t rank = 1; rank < kOwnersPerPartition; ++rank) {
    seats_[rank].resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Wide exact = Wide{kPartitions} * weights_[i];
      seats_[rank][i] = static_cast<std::uint32_t>(
          (exact * kFallbackSeatsPercent + 100 * total - 1) / (100 * total));
    }
  }
}

// Who is above his share gives up first what somebody below his share has owned, and of that what
// he lost last: a node that comes back gets its own blocks, not those of the hour before it had
// fewer neighbours. Then what rendezvous would give him last.
void Placement::ShedSurplus() {
  struct Offer {
    std::uint64_t lost;
    std::uint64_t cost;
    std::size_t partition;
  };
  std::vector<std::vector<Offer>> offers(nodes_.size());
  for (std::size_t p = 0; p < kPartitions; ++p) {
    const std::uint16_t node = Owner(p, 0);
    if (node == kNoOwner || held_[0][node] <= seats_[0][node]) continue;
    offers[node].push_back(
        Offer{LostAt(p), rendezvous_.Cost(static_cast<std::uint32_t>(p), node), p});
  }
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto& mine = offers[node];
    if (mine.empty()) continue;
    const std::size_t surplus = held_[0][node] - seats_[0][node];
    std::ranges::nth_element(mine, mine.begin() + static_cast<std::ptrdiff_t>(surplus),
                             [](const Offer& a, const Offer& b) {
                               return std::tie(b.lost, b.cost, a.partition) <
                                      std::tie(a.lost, a.cost, b.partition);
                             });
    for (std::size_t i = 0; i < surplus; ++i) Owner(mine[i].partition, 0) = kNoOwner;
    held_[0][node] = seats_[0][node];
  }
}

// The last epoch in which somebody below his share lost the partition; 0: nobody has.
std::uint64_t Placement::LostAt(std::size_t partition) const {
  const auto& former = history_[partition].former;
  const auto heir =
      std::ranges::find_if(former, [this](std::uint16_t node) { return HasSeat(0, node); });
  if (heir == former.end()) return 0;
  return history_[partition].until[static_cast<std::size_t>(heir - former.begin())];
}

// A partition without a first owner goes to whoever may hold its blocks, where his share allows it:
// a former first owner, what was lost last before the others, or a fallback that filled while the
// first owner was silent.
void Placement::GiveToThoseWhoMayHoldIt() {
  std::vector<std::pair<std::uint64_t, std::size_t>> lost;
  for (std::size_t p = 0; p < kPartitions; ++p) {
    if (Owner(p, 0) == kNoOwner) lost.emplace_back(LostAt(p), p);
  }
  std::ranges::sort(lost, std::ranges::greater());
  const auto give = [this](std::size_t partition, std::span<const std::uint16_t> heirs) {
    if (Owner(partition, 0) != kNoOwner) return;
    for (const std::uint16_t heir : heirs) {
      if (!HasSeat(0, heir)) continue;
      Take(partition, 0, heir);
      return;
    }
  };
  for (const auto& [epoch, p] : lost) give(p, history_[p].former);
  for (const auto& [epoch, p] : lost) give(p, history_[p].owners);
}

// The old owners that are not the first owner now stay in their order, as long as they have seats;
// who has more fallbacks than seats loses those of the partitions that come last. First come those
// that have moved: their old first owner, now a fallback, holds the blocks. And the first owner
// that they moved to is often one that has grown, with free seats that are no use to these
// partitions. The ranks come from opposite ends, for the same reason: a node with free seats can
// take one of a partition's fallbacks, not both. None of the fallbacks has a free first seat if the
// partition is still without a first owner, so this never keeps FillByRendezvous from an exact
// share.
void Placement::KeepFallbacks() {
  for (const bool moved : {true, false}) {
    for (std::size_t rank = 1; rank < kOwnersPerPartition; ++rank) {
      for (std::size_t i = 0; i < kPartitions; ++i) {
        const std::size_t p = rank % 2 == 1 ? i : kPartitions - 1 - i;
        const bool is_due = (history_[p].owners[0] != Owner(p, 0)) == moved;
        if (is_due && Owner(p, rank) == kNoOwner) KeepFallback(p, rank);
      }
    }
  }
}

void Placement::KeepFallback(std::size_t partition, std::size_t rank) {
  for (const std::uint16_t node : history_[partition].owners) {
    if (!HasSeat(rank, node) || Owns(partition, node)) continue;
    Take(partition, rank, node);
    return;
  }
}

bool Placement::InNewZone(std::size_t partition, std::size_t rank, std::uint16_t node) const {
  const auto row = std::span(owners_).subspan(partition * kOwnersPerPartition, rank);
  return std::ranges::none_of(
      row, [&](std::uint16_t owner) { return owner != kNoOwner && zones_[owner] == zones_[node]; });
}

// A fallback in a zone that no owner before it lies in: one that was an owner already, else the
// cheapest; with a free seat. A partition that finds none gets its fallback like any other, so a
// small zone takes no more than its share.
void Placement::SpreadOverZones(std::size_t rank) {
  const auto fits = [this, rank](std::size_t partition, std::uint16_t node) {
    return HasSeat(rank, node) && !Owns(partition, node) && InNewZone(partition, rank, node);
  };
  for (std::size_t p = 0; p < kPartitions; ++p) {
    for (const std::uint16_t node : history_[p].owners) {
      if (!fits(p, node)) continue;
      Take(p, rank, node);
      break;
    }
  }
  const auto nodes = static_cast<std::uint16_t>(nodes_.size());  // at most kMaxRingNodes
  for (std::size_t p = 0; p < kPartitions; ++p) {
    if (Owner(p, rank) != kNoOwner) continue;
    std::uint16_t cheapest = kNoOwner;
    std::uint64_t least = 0;
    for (std::uint16_t node = 0; node < nodes; ++node) {
      if (weights_[node] == 0 || !fits(p, node)) continue;
      const std::uint64_t cost = rendezvous_.Cost(static_cast<std::uint32_t>(p), node);
      if (cheapest != kNoOwner && cost >= least) continue;
      cheapest = node;
      least = cost;
    }
    if (cheapest != kNoOwner) Take(p, rank, cheapest);
  }
}

void Placement::FillByRendezvous(std::size_t ranks) {
  for (std::size_t p = 0; p < kPartitions; ++p) {
    const auto row = std::span(owners_).subspan(p * kOwnersPerPartition, ranks);
    if (std::ranges::find(row, kNoOwner) == row.end()) continue;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (Owner(p, rank) != kNoOwner) continue;
      const std::uint16_t node = Choose(p, rank);
      if (node == kNoOwner) {  // fewer nodes than ranks
        CloseGaps(p);
        break;
      }
      Take(p, rank, node);
    }
  }
}

// Of few nodes the only one left may already have a later rank, since it had no seat in this one.
void Placement::CloseGaps(std::size_t partition) {
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < kOwnersPerPartition; ++rank) {
    const std::uint16_t node = Owner(partition, rank);
    if (node == kNoOwner) continue;
    Owner(partition, rank) = kNoOwner;
    --held_[rank][node];
    Take(partition, next++, node);
  }
}

// Among the nodes that do not own the partition yet: the cheapest with a free seat. Where all seats
// are taken (the last ones belong to nodes that own the partition already), the one that a further
// partition overloads least.
std::uint16_t Placement::Choose(std::size_t partition, std::size_t rank) const {
  std::uint16_t cheapest = kNoOwner;
  std::uint64_t least = 0;
  std::uint16_t lightest = kNoOwner;
  const auto nodes = static_cast<std::uint16_t>(nodes_.size());  // at most kMaxRingNodes
  for (std::uint16_t node = 0; node < nodes; ++node) {
    if (weights_[node] == 0 || Owns(partition, node)) continue;
    if (HasSeat(rank, node)) {
      const std::uint64_t cost = rendezvous_.Cost(static_cast<std::uint32_t>(partition), node);
      if (cheapest != kNoOwner && cost >= least) continue;
      cheapest = node;
      least = cost;
    } else if (cheapest == kNoOwner) {
      if (lightest == kNoOwner || IsLighter(rank, node, lightest)) lightest = node;
    }
  }
  return cheapest != kNoOwner ? cheapest : lightest;
}

// Would `a` with one partition more be less loaded for its weight than `b` with one more?
bool Placement::IsLighter(std::size_t rank, std::uint16_t a, std::uint16_t b) const {
  return Wide{held_[rank][a] + 1U} * weights_[b] < Wide{held_[rank][b] + 1U} * weights_[a];
}

}  // namespace forebay
