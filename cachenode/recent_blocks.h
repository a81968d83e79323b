#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cachenode/fill.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Blocks that were filled and that the store did not keep, the last few of them, in memory: a
/// reader takes a block in many READs (128 KiB each out of 4 MiB), and a full cache must not cost a
/// GET for each. Where room is short, those that were read through keep a quarter of it, for others
/// who come a little later, and make way beyond that for those that a reader is in the middle of or
/// that came ahead of it; of both kinds the least recently used go. Thread-safe.
class RecentBlocks {
 public:
  /// Holds at most `limit` bytes of blocks; one block is always held.
  explicit RecentBlocks(std::uint64_t limit) : limit_(limit) {}

  /// `link` is the one that it was filled for.
  void Add(const Uuid& link, std::shared_ptr<const Fill> fill);
  /// The enclosing cells, as tier kLocal; nothing when the block is not here.
  std::optional<Cells> Read(const BlockId& block, BlockRange range);
  bool Contains(const BlockId& block) const;
  void Remove(const BlockId& block);
  void RemoveLink(const Uuid& link);
  void Clear();
  std::uint64_t bytes() const;

 private:
  struct Entry {
    Uuid link;
    std::shared_ptr<const Fill> fill;
    bool read_through;
  };
  using Order = std::list<Entry>;  // most recently used first
  Order& OrderOf(const Entry& entry) { return entry.read_through ? read_through_ : wanted_; }
  void Use(const BlockId& block, bool read_through);
  void MakeRoom();
  void Drop(Order::iterator entry);

  const std::uint64_t limit_;
  mutable std::mutex mutex_;
  Order wanted_;
  Order read_through_;
  std::unordered_map<BlockId, Order::iterator> by_block_;
  std::uint64_t bytes_ = 0;
  std::uint64_t read_through_bytes_ = 0;
};

}  // namespace forebay
