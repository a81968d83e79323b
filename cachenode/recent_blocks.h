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
/// GET for each. Thread-safe.
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
  };
  using Order = std::list<Entry>;  // most recently used first
  void Drop(Order::iterator entry);

  const std::uint64_t limit_;
  mutable std::mutex mutex_;
  Order order_;
  std::unordered_map<BlockId, Order::iterator> by_block_;
  std::uint64_t bytes_ = 0;
};

}  // namespace forebay
