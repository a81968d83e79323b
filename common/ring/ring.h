#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/limits.h"
#include "common/model/membership.h"

namespace forebay {

/// A former owner of a partition, which may still hold its blocks: a new owner asks those alive
/// before it asks S3.
struct PreviousOwner {
  std::string node_id;
  std::uint64_t until_epoch =
      0;  ///< The first ring epoch in which it no longer was the first owner.
  std::int64_t left_unix_s = 0;  ///< Remembered for kPreviousOwnerMemory after this.

  bool operator==(const PreviousOwner&) const = default;
};

inline constexpr std::size_t kOwnersPerPartition =
    3;  ///< First owner and the fallbacks that are tabulated.
inline constexpr std::size_t kPreviousOwners =
    4;  ///< Distinct ones per partition (DESIGN section 4).
inline constexpr std::int64_t kPreviousOwnerMemory = 24 * 3600;  ///< Seconds.

/// The table of one ring epoch: partition -> ordered owners. Immutable once made; pure, no clocks,
/// no I/O.
class RingTable {
 public:
  /// An empty table of epoch 0: no owners at all.
  RingTable() = default;

  /// The next table for `members` (those that may own: up, suspect; weight = capacity_bytes). Every
  /// assignment of `old` that is within its node's fair share is kept, only the surplus moves;
  /// former first owners are remembered. The result has epoch old.epoch() + 1. Deterministic: the
  /// same arguments give the same table everywhere.
  static RingTable Next(const RingTable& old, std::vector<NodeInfo> members,
                        std::int64_t now_unix_s);

  /// The same table and epoch with the members' addresses, sockets and states replaced (matched by
  /// id). Does not move anything.
  RingTable WithNodeDetails(const std::vector<NodeInfo>& nodes) const;

  std::uint64_t epoch() const { return epoch_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }
  bool empty() const { return nodes_.empty(); }

  /// Up to kOwnersPerPartition distinct indexes into nodes(), first owner first. Empty only when
  /// the table is.
  std::span<const std::uint16_t> OwnersOf(std::uint32_t partition) const;
  std::span<const PreviousOwner> PreviousOwnersOf(std::uint32_t partition) const;

  /// nullptr when no member has this id.
  const NodeInfo* Find(std::string_view node_id) const;

  /// A self-describing, checksummed byte string, for disks and for the wire. Parse answers kCorrupt
  /// for anything that Serialize did not make (truncated, flipped, a newer format).
  std::string Serialize() const;
  static Result<RingTable> Parse(std::string_view bytes);

 private:
  std::uint64_t epoch_ = 0;
  std::vector<NodeInfo> nodes_;
  std::vector<std::uint16_t> owners_;  // kPartitions x kOwnersPerPartition, kNoOwner pads
  std::vector<std::vector<PreviousOwner>> previous_;  // empty, or kPartitions entries, newest first
};

}  // namespace forebay
