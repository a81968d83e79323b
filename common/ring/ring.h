#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/limits.h"
#include "common/model/membership.h"

namespace forebay {

struct PartitionHistory;

/// A former owner of a partition, which may still hold its blocks: a new owner asks those alive
/// before it asks S3.
struct PreviousOwner {
  std::string node_id;
  std::uint64_t until_epoch =
      0;  ///< The first ring epoch in which it no longer was the first owner.
  std::int64_t left_unix_s = 0;  ///< Remembered for kPreviousOwnerMemory after this.

  bool operator==(const PreviousOwner&) const = default;
};

/// First owner and the fallbacks that are tabulated.
inline constexpr std::size_t kOwnersPerPartition = 3;
/// Distinct ones per partition (DESIGN section 4).
inline constexpr std::size_t kPreviousOwners = 4;
/// Seconds.
inline constexpr std::int64_t kPreviousOwnerMemory = 24LL * 3600;
/// Four times the size that is planned for (DESIGN section 11), and as many as a program accepts
/// connections from.
inline constexpr std::size_t kMaxRingNodes = 4096;

/// The table of one ring epoch: partition -> ordered owners. Immutable once made; pure, no clocks,
/// no I/O. A copy shares the owners and what is remembered of them, and costs its nodes alone.
class RingTable {
 public:
  /// An empty table of epoch 0: no owners at all.
  RingTable() = default;

  /// The next table for `members`: weight = capacity_bytes; up and suspect nodes own, a draining
  /// one is listed but owns nothing, one that is out is left out. Every assignment of `old` that is
  /// within its node's fair share is kept, only the surplus moves; former first owners are
  /// remembered. The result has epoch old.epoch() + 1. Deterministic: the same members in any order
  /// give the same table everywhere. Ids are distinct; members past kMaxRingNodes, by id, are left
  /// out.
  static RingTable Next(const RingTable& old, std::vector<NodeInfo> members,
                        std::int64_t now_unix_s);

  /// The same table and epoch with the members' addresses, sockets, hosts, zones and states
  /// replaced (matched by id). Moves nothing, so the weights stay those that the table was made of.
  RingTable WithNodeDetails(const std::vector<NodeInfo>& nodes) const;

  /// The same table under another number: after a restore, one that nobody has heard of.
  RingTable AtEpoch(std::uint64_t epoch) const;

  std::uint64_t epoch() const { return epoch_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }
  /// True when nobody owns anything: no members, or all of them are draining.
  bool empty() const { return assigned_->owners.empty(); }

  /// Up to kOwnersPerPartition distinct indexes into nodes(), first owner first. Empty only when
  /// the table is. `partition` is below kPartitions.
  std::span<const std::uint16_t> OwnersOf(std::uint32_t partition) const;
  /// The place of a node among them, 0 = first owner; nothing: it is none of them.
  std::optional<std::size_t> RankOf(std::uint32_t partition, std::string_view node_id) const;
  /// Those that were first owner in the last 24 h and are not now, newest first. They need not be
  /// members any more.
  std::span<const PreviousOwner> PreviousOwnersOf(std::uint32_t partition) const;

  /// nullptr when no member has this id.
  const NodeInfo* Find(std::string_view node_id) const;

  /// A self-describing, checksummed byte string, for disks and for the wire. Parse answers kCorrupt
  /// for anything that Serialize did not make (truncated, flipped, a newer format).
  std::string Serialize() const;
  static Result<RingTable> Parse(std::string_view bytes);

 private:
  using History = std::vector<PreviousOwner>;
  struct Assigned {
    std::vector<std::uint16_t>
        owners;  // empty, or kPartitions x kOwnersPerPartition; kNoOwner pads
    // Many partitions have lost the same owners: each such history is here once, newest first, and
    // said by its number. Empty, or kPartitions numbers.
    std::vector<History> histories;
    std::vector<std::uint32_t> history_of;
  };
  static const std::shared_ptr<const Assigned>& Nothing();
  std::vector<PartitionHistory> BroughtTo(const std::vector<NodeInfo>& nodes) const;
  void Remember(const RingTable& old, std::int64_t now_unix_s, Assigned& assigned) const;

  std::uint64_t epoch_ = 0;
  std::vector<NodeInfo> nodes_;  // ascending by id
  std::shared_ptr<const Assigned> assigned_ = Nothing();
};

}  // namespace forebay
