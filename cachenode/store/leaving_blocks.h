#pragma once

#include <utility>
#include <vector>

#include "cachenode/store/block_index.h"
#include "cachenode/store/disk.h"

namespace forebay {

/// Blocks of one disk whose removal has begun. They stay, unless somebody takes them and removes
/// them: so none is left half removed by work that never ran.
class LeavingBlocks {
 public:
  LeavingBlocks() = default;  ///< None.
  LeavingBlocks(Disk& disk, std::vector<BlockIndex::Found> blocks)
      : disk_(&disk), blocks_(std::move(blocks)) {}
  LeavingBlocks(LeavingBlocks&& other) noexcept
      : disk_(other.disk_), blocks_(std::exchange(other.blocks_, {})) {}
  LeavingBlocks& operator=(LeavingBlocks&&) = delete;
  ~LeavingBlocks() {
    if (!blocks_.empty()) disk_->CancelRemoval(blocks_);
  }

  Disk& disk() const { return *disk_; }  ///< Of the blocks that there are, or were.
  /// From now on they are the caller's to remove.
  std::vector<BlockIndex::Found> Take() { return std::exchange(blocks_, {}); }

 private:
  Disk* disk_ = nullptr;
  std::vector<BlockIndex::Found> blocks_;
};

}  // namespace forebay
