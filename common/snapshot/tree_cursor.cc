#include "common/snapshot/tree_cursor.h"

#include <algorithm>
#include <cstddef>

#include "common/model/key_rules.h"

namespace forebay {

TreeCursor::TreeCursor(const Snapshot& snapshot, std::uint32_t directory) : snapshot_(snapshot) {
  const auto top = snapshot.DirectoryAt(directory);
  if (!top) {
    damaged_ = true;
    return;
  }
  path_ = top->path;
  open_.push_back({{snapshot, top, 0}, directory, path_.size()});
}

// Every directory has one parent, before it, and one row, and is entered only from there: no
// damaged file makes the walk meet one twice, nor the root (its own parent) in itself.
bool TreeCursor::Enter() {
  const std::uint32_t parent = open_.back().directory;
  const auto below = snapshot_.DirectoryAt(row_.directory);
  if (!below || row_.directory <= parent || below->parent != parent) return false;
  open_.push_back({{snapshot_, below, 0}, row_.directory, path_.size()});
  return true;
}

bool TreeCursor::Next() {
  if (damaged_) return false;
  if (enter_ && !Enter()) damaged_ = true;
  enter_ = false;
  while (!damaged_ && !open_.empty()) {
    Level& level = open_.back();
    path_.resize(level.path_bytes);
    if (!level.cursor.Next()) {
      damaged_ = level.cursor.damaged();
      open_.pop_back();
      continue;
    }
    row_ = level.cursor.row();
    if (!path_.empty()) path_.push_back('/');
    path_.append(level.cursor.name());
    enter_ = row_.is_directory();
    return true;
  }
  return false;
}

bool TreePair::Next() {
  if (order_ <= 0) has_then_ = then_.Next();
  if (order_ >= 0) has_now_ = now_.Next();
  if (damaged() || (!has_then_ && !has_now_)) return false;
  if (!has_then_) {
    order_ = 1;
  } else if (!has_now_) {
    order_ = -1;
  } else {
    order_ = ComparePaths(then_.path(), now_.path());
  }
  return true;
}

Result<FolderMarks> FolderMarks::Of(const Snapshot& snapshot) {
  FolderMarks marks(snapshot);
  marks.newest_.reserve(snapshot.directories());
  std::uint64_t rows = 0;
  for (std::uint32_t d = 0; d < snapshot.directories(); ++d) {
    const auto directory = snapshot.DirectoryAt(d);
    // Each row is the entry of one folder: no damaged file makes this longer.
    if (directory) rows += directory->row_count;
    if (!directory || rows > snapshot.rows()) {
      return Fail(Code::kCorrupt, "the snapshot is damaged: drop it and fetch it again");
    }
    std::uint32_t newest = 0;
    for (std::uint32_t i = 0; i < directory->row_count; ++i) {
      const auto row = snapshot.RowAt(directory->first_row + i);
      if (!row) return Fail(Code::kCorrupt, "the snapshot is damaged: drop it and fetch it again");
      newest = std::max(newest, row->mtime_unix_s);
    }
    marks.newest_.push_back(newest);
  }
  return marks;
}

std::optional<FolderMark> FolderMarks::MarkOf(const SnapshotRow& folder) const {
  const auto directory = snapshot_->DirectoryAt(folder.directory);
  if (!directory || folder.directory == kRootDirectory) return std::nullopt;
  FolderMark mark{.mtime_unix_s = 0, .posix = snapshot_->PosixOf(folder)};
  const bool newer = folder.mtime_unix_s > newest_[folder.directory];
  if (newer) mark.mtime_unix_s = folder.mtime_unix_s;
  if (newer || mark.posix || directory->row_count == 0) return mark;
  return std::nullopt;
}

}  // namespace forebay
