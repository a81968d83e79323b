#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/posix_attributes.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// Walks files and folders below one folder in the order of ComparePaths, a folder before what it
/// holds. The snapshot must outlive it.
class TreeCursor {
 public:
  explicit TreeCursor(const Snapshot& snapshot, std::uint32_t directory = kRootDirectory);

  /// False at the end, or where the file is damaged (then damaged() is true).
  bool Next();
  /// After a folder: what it holds is passed over.
  void SkipBelow() { enter_ = false; }

  /// From the link's root. Valid until Next().
  std::string_view path() const { return path_; }
  const SnapshotRow& row() const { return row_; }
  bool damaged() const { return damaged_; }

 private:
  struct Level {
    DirectoryCursor cursor;
    std::uint32_t directory;
    std::size_t path_bytes;
  };
  bool Enter();

  const Snapshot& snapshot_;
  std::vector<Level> open_;
  std::string path_;
  SnapshotRow row_;
  bool enter_ = false;  // row_ is a folder whose entries come next
  bool damaged_ = false;
};

/// Walks two trees side by side, path by path. The snapshots must outlive it.
///
///     TreePair pair(before, after);
///     while (pair.Next()) { pair.order(): whose path it is; pair.then(), pair.now(): the rows }
class TreePair {
 public:
  TreePair(const Snapshot& before, const Snapshot& after) : then_(before), now_(after) {}

  /// False at the end of both, or where a file is damaged (then damaged() is true).
  bool Next();
  /// Less than 0: the path is in `before` alone; more than 0: in `after` alone; 0: in both.
  int order() const { return order_; }
  const TreeCursor& then() const { return then_; }  ///< Good where order() <= 0.
  const TreeCursor& now() const { return now_; }    ///< Good where order() >= 0.
  /// After a folder of `before`: what it holds there is passed over.
  void SkipBelowThen() { then_.SkipBelow(); }
  bool damaged() const { return then_.damaged() || now_.damaged(); }

 private:
  TreeCursor then_;
  TreeCursor now_;
  bool has_then_ = true;
  bool has_now_ = true;
  int order_ = 0;  // before the first, both go on
};

/// What the marker "dir/" of a folder says that its entries do not: without it the folder would not
/// be there, or have another time or no metadata.
struct FolderMark {
  std::uint32_t mtime_unix_s = 0;  ///< 0 where the entries are as new.
  std::optional<PosixAttributes> posix;

  bool operator==(const FolderMark&) const = default;
};

/// The marks of a snapshot's folders. Takes 4 bytes for each; the snapshot must outlive it.
class FolderMarks {
 public:
  /// Reads all rows. kCorrupt: the snapshot is damaged.
  static Result<FolderMarks> Of(const Snapshot& snapshot);

  /// Of the row of a folder; nothing where its entries say it all, and for the root.
  std::optional<FolderMark> MarkOf(const SnapshotRow& folder) const;

 private:
  explicit FolderMarks(const Snapshot& snapshot) : snapshot_(&snapshot) {}

  const Snapshot* snapshot_;
  std::vector<std::uint32_t> newest_;  // entry of each folder; 0 where it has none
};

}  // namespace forebay
