#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// A process of a node of this machine, which has told where blocks lie.
struct PlaceTeller {
  std::uint64_t store = 0;  ///< What it calls itself; no other process does.
  std::string node;
  std::string address;                ///< "unix:/path"
  std::atomic<std::uint32_t> era{0};  ///< What it told in an earlier one is forgotten.
};

/// Where blocks lie in the segments of this machine's nodes, and their cells' checksums: what nodes
/// have told, so that the next read of the same cells asks nobody. Nothing here is more than a
/// hint: a place may be empty by now, and whoever reads there compares
/// (docs/adr/0039-places-are-remembered.md).
///
/// By block and link: of links that share a block one alone may read the segment. Takes at most
/// `limit` bytes; when they are used up a block chosen at random makes way, because the order of
/// the last epoch says nothing about the next. Thread-safe, in shards.
class KnownPlaces {
 public:
  struct Place {
    std::uint64_t segment = 0;
    std::uint64_t position = 0;  ///< Of the first of the cells, in the segment's file.
    std::vector<std::uint64_t> checksums{};
  };
  struct Known : Place {
    PlaceTeller* teller = nullptr;  ///< As long as this table lives.
  };

  /// 0: nothing is remembered.
  explicit KnownPlaces(std::uint64_t limit) : limit_(limit / kShards) {}

  /// The teller's process is at `address`, in the words of its node.
  PlaceTeller* Teller(std::uint64_t store, const std::string& node, const std::string& address);

  /// `cells` are whole cells (EnclosingCells), and `place` has one checksum for each.
  void Remember(const Uuid& link, const BlockId& block, BlockRange cells, PlaceTeller* teller,
                const Place& place);
  /// Nothing unless all of `cells` are known.
  std::optional<Known> Find(const Uuid& link, const BlockId& block, BlockRange cells);
  /// The block is not known, and there is room for it and some others without any making way.
  bool Lacks(const Uuid& link, const BlockId& block);
  void Forget(const Uuid& link, const BlockId& block);
  /// All that it has told.
  static void Forget(PlaceTeller& teller) { teller.era.fetch_add(1, std::memory_order_relaxed); }

  std::size_t size() const;  ///< Blocks.

 private:
  static constexpr std::size_t kShards = 64;
  /// Of an entry without its checksums, with the nodes of its map and what malloc adds. Measured
  /// with glibc: 168 for a block of one cell.
  static constexpr std::uint64_t kEntryBytes = 160;

  struct Key {
    Uuid link;
    BlockId block;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<BlockId>()(key.block) ^ std::hash<Uuid>()(key.link);
    }
  };
  struct Entry {
    PlaceTeller* teller = nullptr;
    std::uint32_t era = 0;
    std::uint64_t segment = 0;
    std::uint64_t position = 0;              ///< Of the block's first cell.
    std::vector<std::uint64_t> checksums{};  ///< Of all its cells; 0: not known.
  };
  using Entries = std::unordered_map<Key, Entry, Hash>;
  struct Shard {
    mutable std::mutex mutex;
    Entries entries;
    std::uint64_t bytes = 0;
    std::uint64_t random = 1;
  };

  Shard& ShardOf(const Key& key);
  static std::uint64_t BytesOf(const BlockId& block) {
    return kEntryBytes + block.cells() * sizeof(std::uint64_t);
  }
  static void Erase(Shard& shard, const Key& key);
  void MakeRoom(Shard& shard, std::uint64_t bytes) const;

  const std::uint64_t limit_;  ///< Bytes of one shard.
  std::array<Shard, kShards> shards_;
  std::mutex tellers_mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<PlaceTeller>> tellers_;
};

}  // namespace forebay
