#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/snapshot/snapshot.h"
#include "coordinator/block_walk.h"

namespace forebay {

/// Rows [begin, end) of a snapshot; folders among them are passed over.
struct RowRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Which objects of one generation a preload takes, and in which order. Immutable.
struct PreloadPlan {
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<RowRange> rows;  ///< No row twice.
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t disk_bytes = 0;  ///< What these take on nodes' disks.
};

/// Files of names, one on a line, relative to the target; "" = none. A name may be a folder.
struct NameFiles {
  std::string names;  ///< Only these.
  std::string order;  ///< These first.
};

/// What S3 lists as archived is refused to a GET until it is restored; the mark stays when it is.
enum class ArchivedObjects : std::uint8_t {
  kTry,      ///< Somebody asked: S3's answer counts.
  kLeaveOut  ///< Nobody did: no refused request for each.
};

/// The plan for `target`, a file or a folder. kNotFound: names that do not exist below the target,
/// or are not among `names`; the message has their count and the first of them. Reads files:
/// blocks.
Result<PreloadPlan> MakePreloadPlan(std::shared_ptr<const Snapshot> snapshot,
                                    const SnapshotRow& target, const NameFiles& files,
                                    ArchivedObjects archived = ArchivedObjects::kTry);

/// What the nodes have for a preload.
struct PreloadRoom {
  /// Free, or given away by links that are idle or of lower priority.
  std::uint64_t disk_bytes = 0;
  std::uint64_t quota_bytes = 0;  ///< Of the link; 0 = none.
  std::uint64_t link_bytes = 0;   ///< Cached of the link.
  std::uint32_t replicas = 1;     ///< Copies of each block.
};

/// What a preload needs of it. Bytes on disk or, where the quota is what bounds it, of blocks.
struct PreloadNeed {
  std::uint64_t needed_bytes = 0;
  std::uint64_t room_bytes = 0;
  bool quota_bound = false;

  bool fits() const { return needed_bytes <= room_bytes; }
};

/// `share`: of the bytes, for --until; 0 = all. `cached` is what nodes hold of the plan.
PreloadNeed NeedOf(const PreloadPlan& plan, const CacheTally& cached, double share,
                   const PreloadRoom& room);

/// One block of a plan; an empty object is a piece with a block of no bytes.
struct PreloadPiece {
  std::uint32_t row = 0;
  BlockId block;
  bool ends_object = false;
};

/// Walks the pieces of a plan in bounded steps. Reads the mapped snapshot: call it on Offload.
class PreloadWalk {
 public:
  explicit PreloadWalk(std::shared_ptr<const PreloadPlan> plan) : plan_(std::move(plan)) {}

  /// The next at most `limit` pieces; empty at the end. kCorrupt: the snapshot is damaged.
  Result<std::vector<PreloadPiece>> Next(std::size_t limit);

  /// Passes over the first `pieces` of the plan; cheaper than Next.
  Status Skip(std::uint64_t pieces);

 private:
  /// Moves to the next file; false at the end.
  Result<bool> NextFile();

  std::shared_ptr<const PreloadPlan> plan_;
  std::size_t range_ = 0;
  std::uint32_t next_row_ = 0;  // in the range; below its begin: the range is not entered
  SnapshotRow file_;
  std::uint64_t offset_ = 0;
  bool in_file_ = false;
  bool version_known_ = false;
  ObjectVersion version_;
};

}  // namespace forebay
