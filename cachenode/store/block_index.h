#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cachenode/store/segment_format.h"
#include "common/model/block_id.h"

namespace forebay {

/// Where a block's record lies.
struct BlockPlace {
  std::uint8_t disk = 0;
  std::uint32_t segment = 0;
  std::uint32_t unit = 0;  ///< The record's position in the segment / kRecordAlignment.

  std::uint64_t position() const { return std::uint64_t{unit} * kRecordAlignment; }
  bool operator==(const BlockPlace&) const = default;
};

/// Names an entry of the index for as long as the entry lives; may name another one afterwards.
using BlockHandle = std::uint32_t;

/// Hours since 1970: how exactly the last use of a block is known.
using Hour = std::uint32_t;

/// Which blocks are cached, and where: what a hit asks. Thread-safe. Acquire, Release and Find take
/// no lock (but for the last reader of a block that is gone, and for a look that entries have moved
/// under again and again); all else locks one of 64 shards for a few memory accesses.
///
/// An entry is live, then leaving (found by nobody, but still in the way of a new one while the
/// durable index forgets it), then gone (out of the table, kept only until its last reader has
/// finished; then its space may be freed).
///
/// Memory per block: 40 bytes of entry and 5.3-10.7 bytes of hash table (4-byte slots, load between
/// 0.375 and 0.75). The owner of the segments adds a handle, 4-8 bytes: 50-59 bytes all in. A table
/// that has grown, and the entries of removed blocks, are kept until a moment in which nobody
/// looks.
class BlockIndex {
 public:
  static constexpr std::size_t kMaxDisks = 64;

  struct Found {
    BlockHandle handle = 0;
    BlockId block;
    BlockPlace place;
    bool pinned = false;
  };

  /// What a removal spares.
  struct Spare {
    bool pinned = true;
    Hour used_since = UINT32_MAX;  ///< Blocks that were used in this hour or later.
  };
  /// `found` is empty when there is no such live block, or it is spared, and then why.
  struct Removal {
    std::optional<Found> found = {};
    bool pinned = false;
    std::uint32_t length = 0;  ///< Of a pinned one.
  };

  /// `lock_waits` counts the lookups that took a lock after all.
  explicit BlockIndex(std::atomic<std::uint64_t>* lock_waits = nullptr);
  ~BlockIndex();
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  /// A live block, and a count on it: its space is not freed before Release. Counts as its
  /// use at `now`, if that is later than its last.
  std::optional<Found> Acquire(const BlockId& block, Hour now);
  /// True: that was the last reader of a block that is gone: the caller frees its space now.
  bool Release(BlockHandle handle);

  std::optional<BlockPlace> Find(const BlockId& block) const;

  /// A live block that `random` (64 random bits) chooses among all that are there; empty when it
  /// meets a place without one.
  std::optional<Found> Pick(std::uint64_t random) const;

  /// Makes the block live. Empty when it is there already, live or leaving, or the index is full
  /// (2^32 blocks), or it lies beyond every object (offset 2^44). Counts as its use.
  std::optional<BlockHandle> Insert(const BlockId& block, BlockPlace place, Hour now,
                                    bool pinned = false);
  /// True when Insert would answer that the block is there.
  bool Occupied(const BlockId& block) const;

  /// Live -> leaving. Empty when there is no such live block, or it is leaving already.
  std::optional<Found> BeginRemove(const BlockId& block);
  /// The same, unless the block is spared.
  Removal BeginRemove(const BlockId& block, const Spare& spare);
  /// The same by handle, only if the entry still lies in this segment.
  Removal BeginRemove(BlockHandle handle, std::uint8_t disk, std::uint32_t segment,
                      const Spare& spare);
  /// What BeginRemove would answer; removes nothing.
  Removal LookAt(const BlockId& block, const Spare& spare) const;
  Removal LookAt(BlockHandle handle, std::uint8_t disk, std::uint32_t segment,
                 const Spare& spare) const;
  /// Leaving -> live.
  void CancelRemove(BlockHandle handle);
  /// Leaving -> gone. True: nobody reads it, the caller frees its space now. False: the last
  /// Release will answer true.
  bool FinishRemove(BlockHandle handle);

  /// Whether the handle still names a block, live or leaving, of this segment.
  bool LiesIn(BlockHandle handle, std::uint8_t disk, std::uint32_t segment) const;

  // Pins are set anew by mark and sweep, link by link: Unmark all, Pin those that are to be pinned,
  // UnpinUnmarked the rest. Calls by handle do nothing if the entry lies elsewhere by now.

  /// Pins and marks a live block; `pinned` of the answer says whether it was pinned before.
  std::optional<Found> Pin(const BlockId& block);
  void Unmark(BlockHandle handle, std::uint8_t disk, std::uint32_t segment);
  /// A block that was pinned and is not marked, which is not pinned from now on.
  std::optional<Found> UnpinUnmarked(BlockHandle handle, std::uint8_t disk, std::uint32_t segment);

  /// Drops all entries of a disk, which nobody reads yet.
  void ForgetDisk(std::uint8_t disk);

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  /// What the entries and tables take, in bytes.
  std::size_t MemoryBytes() const;

 private:
  struct Shard;
  static constexpr std::size_t kShards = 64;

  template <typename Take>
  void Seek(const BlockId& block, Take take) const;
  Shard& ShardOf(std::uint64_t hash) const;
  Shard& ShardOfHandle(BlockHandle handle) const;

  std::atomic<std::uint64_t>* const lock_waits_;
  std::unique_ptr<std::array<Shard, kShards>> shards_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace forebay
