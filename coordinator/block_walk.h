#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What a file or folder holds, and how much of it is cached.
struct CacheTally {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t cached_objects = 0;  ///< All blocks cached; an empty object has none and counts.
  std::uint64_t cached_bytes = 0;
  std::uint64_t cached_blocks = 0;
  std::uint64_t cached_disk_bytes = 0;  ///< What these take on a node's disk.
  std::uint64_t unknown_blocks = 0;     ///< Only a node that could not be asked may hold them.
  std::uint64_t unknown_bytes = 0;
  std::uint64_t set_aside_blocks = 0;  ///< Not cached: a node crashed on them too often.
};

/// One block of a walk.
struct WalkedBlock {
  BlockId id;
  std::uint32_t root = 0;    ///< Index of the root it was found below.
  bool ends_object = false;  ///< The object's last block.
};

/// Walks all blocks of some files and folders of a snapshot in bounded steps, so that a target of
/// any size needs no memory. A step reads the mapped file: call it on Offload.
class BlockWalk {
 public:
  BlockWalk(std::shared_ptr<const Snapshot> snapshot, std::vector<SnapshotRow> roots);

  /// The next at most `limit` blocks; empty at the end. kCorrupt: the snapshot is damaged.
  Result<std::vector<WalkedBlock>> Next(std::size_t limit);

  /// Per root. Next counts objects, bytes, blocks and the empty objects; the caller the rest.
  std::vector<CacheTally>& tallies() { return tallies_; }

 private:
  /// Moves to the next file of the current root; false when it has no more.
  Result<bool> NextFile();
  Result<bool> EnterRoot();

  std::shared_ptr<const Snapshot> snapshot_;
  std::vector<SnapshotRow> roots_;
  std::vector<CacheTally> tallies_;
  std::size_t root_ = 0;
  bool entered_ = false;
  // The rest of the root: directories [directory_, directory_end_), rows [row_, row_end_) of the
  // current one.
  std::uint32_t directory_ = 0;
  std::uint32_t directory_end_ = 0;
  std::uint32_t row_ = 0;
  std::uint32_t row_end_ = 0;
  // The current file.
  ObjectVersion version_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;  // == size_: the file is done
};

/// Objects and bytes below `path` (none when it is not there). Reads the mapped file: call it on
/// Offload.
Result<CacheTally> MeasureTarget(std::shared_ptr<const Snapshot> snapshot, const std::string& path);

}  // namespace forebay
