// What few snapshots have: POSIX metadata of objects, lines of an augmented manifest.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "common/snapshot/listed_extras.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

// After this every record that the rows allow lies inside the mapping; what records say is checked
// where they are read. No checksum of the header covers these places.
bool Snapshot::TakeExtras() {
  if (header_.format != kSnapshotFormatWithExtras) return true;
  const SnapshotSectionRecord hidden = header_.section(SnapshotSection::kHidden);
  const std::uint64_t end = header_.section(SnapshotSection::kCells).offset;
  const std::uint64_t at = std::uint64_t{header_.extras_place} * kSnapshotAlignment;
  if (at < hidden.offset + hidden.bytes || at > end || end - at < sizeof extras_) return false;
  std::memcpy(&extras_, base_ + at, sizeof extras_);
  const std::uint64_t rows = header_.rows;
  const bool fits = std::ranges::all_of(
      std::array{extras_.posix, extras_.line_rows, extras_.lines}, [&](const auto& place) {
        return place.offset >= at && place.offset <= end && place.bytes <= end - place.offset;
      });
  const auto is_per_row = [&](const SnapshotSectionRecord& place, std::size_t size) {
    return place.bytes == 0 || place.bytes == rows * size;
  };
  return fits && is_per_row(extras_.posix, sizeof(SnapshotPosixRecord)) &&
         is_per_row(extras_.line_rows, sizeof(std::uint64_t));
}

std::optional<PosixAttributes> Snapshot::PosixOf(const SnapshotRow& row) const {
  if (!has_posix() || row.index >= header_.rows) return std::nullopt;
  SnapshotPosixRecord record;
  std::memcpy(&record, base_ + extras_.posix.offset + row.index * sizeof record, sizeof record);
  if ((record.known & SnapshotPosixRecord::kAsked) == 0) return std::nullopt;
  return PosixOfRecord(record);
}

// Texts are met by offsets that only grow, so that no damaged file makes a walk go round.
std::optional<Snapshot::Line> Snapshot::LineAt(std::uint64_t at) const {
  SnapshotLineRecord record;
  if (at > extras_.lines.bytes || extras_.lines.bytes - at < sizeof record) return std::nullopt;
  const std::byte* const text = base_ + extras_.lines.offset + at;
  std::memcpy(&record, text, sizeof record);
  const std::uint64_t end = at + sizeof record + record.bytes;
  if (end > extras_.lines.bytes || record.row >= header_.rows) return std::nullopt;
  if (record.next != 0 && record.next <= end) return std::nullopt;
  return Line{.row = record.row,
              .json = {reinterpret_cast<const char*>(text) + sizeof record, record.bytes},
              .place = at,
              .end = end,
              .next = record.next};
}

std::vector<AttributeLine> Snapshot::LinesOf(const SnapshotRow& row) const {
  std::vector<AttributeLine> lines;
  if (!has_lines() || row.index >= header_.rows) return lines;
  std::uint64_t at = 0;
  std::memcpy(&at, base_ + extras_.line_rows.offset + row.index * sizeof at, sizeof at);
  while (at != 0) {
    const std::optional<Line> line = LineAt(at - 1);
    if (!line || line->row != row.index) break;
    lines.push_back({.place = line->place, .json = line->json});
    at = line->next;
  }
  return lines;
}

bool LineCursor::Next() {
  if (damaged_ || end_ >= snapshot_->extras_.lines.bytes) return false;
  const std::optional<Snapshot::Line> line = snapshot_->LineAt(end_);
  damaged_ = !line;
  if (damaged_) return false;
  row_ = line->row;
  json_ = line->json;
  place_ = end_;
  end_ = line->end;
  return true;
}

Status Snapshot::ForEachLine(
    const std::function<bool(const SnapshotRow& row, std::string_view json)>& visit) const {
  LineCursor line(*this);
  while (line.Next()) {
    const std::optional<SnapshotRow> row = RowAt(line.row());
    if (!row || row->is_directory()) {
      return Fail(Code::kCorrupt, "the snapshot's lines of a manifest are damaged: fetch it again");
    }
    if (!visit(*row, line.json())) return {};
  }
  if (!line.damaged()) return {};
  return Fail(Code::kCorrupt, "the snapshot's lines of a manifest are damaged: fetch it again");
}

}  // namespace forebay
