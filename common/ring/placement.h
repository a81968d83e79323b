#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/model/limits.h"
#include "common/model/membership.h"
#include "common/ring/rendezvous.h"
#include "common/ring/ring.h"

namespace forebay {

/// Pads the owners of a partition when there are fewer than kOwnersPerPartition.
inline constexpr std::uint16_t kNoOwner = 0xFFFF;

/// What a partition brings from the old table, as indexes of the new nodes; kNoOwner for those that
/// are no members any more.
struct PartitionHistory {
  std::array<std::uint16_t, kOwnersPerPartition> owners;
  std::array<std::uint16_t, kPreviousOwners> former;  // newest first
  std::array<std::uint64_t, kPreviousOwners> until;   // the epoch in which each was replaced
};

/// Computes the owners of all partitions from those that they had. Where the nodes lie in several
/// zones, the owners of a partition do so too, as far as shares allow. One use: construct, Run.
class Placement {
 public:
  /// `weights[i]` is the weight of `nodes[i]`, 0 = may not own; at least one is positive. `history`
  /// has kPartitions entries. The arguments outlive the object.
  Placement(std::span<const NodeInfo> nodes, std::span<const std::uint64_t> weights,
            std::span<const PartitionHistory> history);

  /// kPartitions rows of kOwnersPerPartition.
  std::vector<std::uint16_t> Run();

 private:
  using Counts = std::vector<std::uint32_t>;

  std::uint16_t& Owner(std::size_t partition, std::size_t rank) {
    return owners_[partition * kOwnersPerPartition + rank];
  }
  bool HasSeat(std::size_t rank, std::uint16_t node) const {
    return node != kNoOwner && held_[rank][node] < seats_[rank][node];
  }
  bool Owns(std::size_t partition, std::uint16_t node) const;
  void Take(std::size_t partition, std::size_t rank, std::uint16_t node);

  void KeepFirstOwners();
  std::uint64_t LostAt(std::size_t partition) const;
  void ShedSurplus();
  void GiveToThoseWhoMayHoldIt();
  void KeepFallbacks();
  void KeepFallback(std::size_t partition, std::size_t rank);
  bool InNewZone(std::size_t partition, std::size_t rank, std::uint16_t node) const;
  void SpreadOverZones(std::size_t rank);
  void FillByRendezvous(std::size_t ranks);
  void CloseGaps(std::size_t partition);
  std::uint16_t Choose(std::size_t partition, std::size_t rank) const;
  bool IsLighter(std::size_t rank, std::uint16_t a, std::uint16_t b) const;

  std::span<const NodeInfo> nodes_;
  std::span<const std::uint64_t> weights_;
  std::span<const PartitionHistory> history_;
  Rendezvous rendezvous_;
  std::vector<std::uint16_t> zones_;  // per node that may own: the number of its zone
  bool zoned_ = false;                // there are several
  std::vector<std::uint16_t> owners_;
  std::array<Counts, kOwnersPerPartition> held_;   // per rank and node
  std::array<Counts, kOwnersPerPartition> seats_;  // how many it may hold
};

}  // namespace forebay
