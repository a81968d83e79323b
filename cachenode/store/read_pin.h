#pragma once

#include "cachenode/store/block_index.h"
#include "cachenode/store/disk.h"

namespace forebay {

/// Holds a block of BlockIndex::Acquire while it is read, also by work that was given up: its space
/// is not freed before.
class ReadPin {
 public:
  ReadPin(BlockIndex& index, Disk& disk, const BlockIndex::Found& found)
      : index_(index), disk_(disk), found_(found) {}
  ReadPin(const ReadPin&) = delete;
  ReadPin& operator=(const ReadPin&) = delete;
  ~ReadPin() {
    if (!index_.Release(found_.handle)) return;
    // The block was removed meanwhile: its disk has space to free.
    disk_.Release(found_.place, found_.block.length);
    disk_.work().Post([&disk = disk_] { disk.FreeReleased(); });
  }

 private:
  BlockIndex& index_;
  Disk& disk_;
  const BlockIndex::Found found_;
};

}  // namespace forebay
