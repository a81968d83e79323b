#include "coordinator/block_walk.h"

#include <optional>
#include <utility>

namespace forebay {
namespace {

Error Damaged() {
  return Error{Code::kCorrupt,
               "the link's listing is damaged: restart the coordinator, which "
               "checks it and lists again"};
}

}  // namespace

BlockWalk::BlockWalk(std::shared_ptr<const Snapshot> snapshot, std::vector<SnapshotRow> roots)
    : snapshot_(std::move(snapshot)), roots_(std::move(roots)), tallies_(roots_.size()) {}

Result<bool> BlockWalk::EnterRoot() {
  if (root_ >= roots_.size()) return false;
  const SnapshotRow& root = roots_[root_];
  entered_ = true;
  row_ = root.index;
  row_end_ = root.index + 1;
  directory_ = 0;
  directory_end_ = 0;
  if (!root.is_directory()) return true;
  const std::optional<SnapshotDirectory> directory = snapshot_->DirectoryAt(root.directory);
  if (!directory) return Fail(Damaged());
  row_end_ = row_;  // the folder's own row is no file
  directory_ = root.directory;
  directory_end_ = directory->end;
  return true;
}

Result<bool> BlockWalk::NextFile() {
  for (;;) {
    while (row_ < row_end_) {
      const std::optional<SnapshotRow> row = snapshot_->RowAt(row_++);
      if (!row) return Fail(Damaged());
      if (row->is_directory()) continue;
      version_ = snapshot_->VersionOf(*row);
      size_ = row->size;
      offset_ = 0;
      CacheTally& tally = tallies_[root_];
      ++tally.objects;
      tally.bytes += size_;
      if (size_ == 0) ++tally.cached_objects;
      return true;
    }
    if (directory_ >= directory_end_) return false;
    const std::optional<SnapshotDirectory> directory = snapshot_->DirectoryAt(directory_++);
    if (!directory) return Fail(Damaged());
    row_ = directory->first_row;
    row_end_ = directory->first_row + directory->row_count;
  }
}

Result<std::vector<WalkedBlock>> BlockWalk::Next(std::size_t limit) {
  std::vector<WalkedBlock> blocks;
  while (blocks.size() < limit) {
    if (offset_ < size_) {
      const BlockId id = BlockAt(version_, size_, snapshot_->block_bytes(), offset_);
      offset_ += id.length;
      ++tallies_[root_].blocks;
      blocks.push_back(WalkedBlock{
          .id = id, .root = static_cast<std::uint32_t>(root_), .ends_object = offset_ == size_});
      continue;
    }
    if (!entered_) {
      Result<bool> entered = EnterRoot();
      if (!entered) return Fail(entered.error());
      if (!*entered) break;
    }
    Result<bool> more = NextFile();
    if (!more) return Fail(more.error());
    if (*more) continue;
    ++root_;
    entered_ = false;
  }
  return blocks;
}

Result<CacheTally> MeasureTarget(std::shared_ptr<const Snapshot> snapshot,
                                 const std::string& path) {
  const std::optional<SnapshotRow> row = snapshot->Resolve(path);
  if (!row) return CacheTally();
  constexpr std::size_t kAtOnce = 65536;
  BlockWalk walk(std::move(snapshot), {*row});
  for (;;) {
    Result<std::vector<WalkedBlock>> blocks = walk.Next(kAtOnce);
    if (!blocks) return Fail(blocks.error());
    if (blocks->empty()) return walk.tallies().front();
  }
}

}  // namespace forebay
