#pragma once

#include <cstddef>
#include <functional>
#include <unordered_set>

#include "cachenode/store/block_index.h"
#include "cachenode/store/read_history.h"
#include "cachenode/store/victim_choice.h"
#include "tests/eviction/workload.h"

namespace forebay::testing {

/// The node's choice of what to keep (BlockIndex, ReadHistory, VictimChoice), without its disk.
class ChoiceAlone {
 public:
  struct Answer {
    bool hit = false;
    bool admitted = false;
  };
  /// Whether there is room for a new block after so many others have gone for it.
  using HasRoom = std::function<bool(std::size_t gone)>;

  Answer Read(const BlockRead& read, const BlockId& block, const HasRoom& has_room);
  /// A block that was not kept has left the node's memory.
  void Forget(const BlockId& block) { not_kept_.erase(block); }
  std::size_t size() const { return index_.size(); }

 private:
  bool Admit(const BlockRead& read, const BlockId& block, const HasRoom& has_room);

  BlockIndex index_;
  ReadHistory history_;
  VictimChoice choice_{index_, history_};
  std::unordered_set<BlockId> not_kept_;
};

}  // namespace forebay::testing
