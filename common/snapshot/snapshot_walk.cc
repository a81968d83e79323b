// How the reader goes through rows in order: a directory, a subtree, the hidden keys.
#include <cstring>

#include "common/snapshot/snapshot.h"
#include "common/snapshot/tree_cursor.h"

namespace forebay {
namespace {

Status Damaged() {
  return Fail(Code::kCorrupt, "the snapshot is damaged: drop it and fetch it again");
}

}  // namespace

DirectoryCursor::DirectoryCursor(const Snapshot& snapshot,
                                 const std::optional<SnapshotDirectory>& directory,
                                 std::uint64_t position)
    : snapshot_(&snapshot),
      first_row_(directory ? directory->first_row : 0),
      row_count_(directory ? directory->row_count : 0),
      position_(position),
      damaged_(!directory) {}

bool DirectoryCursor::Next() {
  if (damaged_ || position_ >= row_count_) return false;
  const std::uint32_t row = first_row_ + static_cast<std::uint32_t>(position_);
  const bool in_group = !starting_ && row % kNameGroupRows != 0;
  const bool named = in_group ? decoder_.Next() : snapshot_->StartAt(decoder_, row);
  const auto found = named ? snapshot_->RowAt(row) : std::nullopt;
  if (!found) {
    damaged_ = true;
    return false;
  }
  row_ = *found;
  starting_ = false;
  ++position_;
  return true;
}

DirectoryCursor Snapshot::ReadDirectory(std::uint32_t directory, std::uint64_t position) const {
  return {*this, DirectoryAt(directory), position};
}

Status Snapshot::ForEachFile(
    std::uint32_t directory,
    const std::function<bool(const SnapshotRow& row, std::string_view path)>& visit) const {
  TreeCursor cursor(*this, directory);
  while (cursor.Next()) {
    if (!cursor.row().is_directory() && !visit(cursor.row(), cursor.path())) return {};
  }
  if (cursor.damaged()) return Damaged();
  return {};
}

Status Snapshot::ForEachHidden(
    const std::function<bool(std::string_view key, HiddenReason reason)>& visit) const {
  std::string_view rest = TextOf(SnapshotSection::kHidden);
  while (!rest.empty()) {
    std::uint16_t bytes = 0;
    constexpr std::size_t kHeadBytes = 1 + sizeof bytes;
    if (rest.size() < kHeadBytes) return Damaged();
    const auto reason = static_cast<HiddenReason>(rest.front());
    std::memcpy(&bytes, rest.data() + 1, sizeof bytes);
    rest.remove_prefix(kHeadBytes);
    if (rest.size() < bytes) return Damaged();
    if (!visit(rest.substr(0, bytes), reason)) return {};
    rest.remove_prefix(bytes);
  }
  return {};
}

}  // namespace forebay
