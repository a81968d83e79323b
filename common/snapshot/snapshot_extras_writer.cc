#include "common/snapshot/snapshot_extras_writer.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "common/snapshot/listed_extras.h"

namespace forebay {
namespace {

std::uint64_t Aligned(std::uint64_t offset) {
  return (offset + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
}

}  // namespace

SnapshotExtrasWriter::SnapshotExtrasWriter(const Listing& listing, const SnapshotTree& tree)
    : listing_(listing), tree_(tree) {
  if (listing_.has_lines()) CollectLines();
}

void SnapshotExtrasWriter::CollectLines() {
  for (std::uint32_t row = 0; row < tree_.rows.size(); ++row) {
    listing_.Passed(row);
    // A manifest names objects: what a marker shows is a directory.
    if (tree_.rows[row].directory != 0) continue;
    ListedExtras extras(listing_.ExtrasOf(listing_.entries()[tree_.rows[row].number]));
    while (const std::optional<AttributeLine> line = extras.NextLine()) {
      lines_.push_back({.place = line->place,
                        .row = row,
                        .json = line->json.data(),
                        .bytes = static_cast<std::uint32_t>(line->json.size())});
    }
  }
  std::ranges::sort(lines_, {}, [](const Line& line) { return std::tuple(line.place, line.row); });
}

std::uint64_t SnapshotExtrasWriter::Place(std::uint64_t offset) {
  if (empty()) return offset;
  offset_ = Aligned(offset);
  const std::uint64_t rows = tree_.rows.size();
  std::uint64_t texts = 0;
  for (const Line& line : lines_) texts += sizeof(SnapshotLineRecord) + line.bytes;
  places_.posix.bytes = listing_.has_posix() ? rows * sizeof(SnapshotPosixRecord) : 0;
  places_.line_rows.bytes = listing_.has_lines() ? rows * sizeof(std::uint64_t) : 0;
  places_.lines.bytes = texts;
  std::uint64_t end = offset_ + sizeof places_;
  for (SnapshotSectionRecord* section : {&places_.posix, &places_.line_rows, &places_.lines}) {
    section->offset = Aligned(end);
    end = section->offset + section->bytes;
  }
  return end;
}

Result<std::uint32_t> SnapshotExtrasWriter::PlaceInHeader() const {
  const std::uint64_t place = offset_ / kSnapshotAlignment;
  if (place > std::numeric_limits<std::uint32_t>::max()) {
    return Fail(Code::kInvalid, "the listing takes more than 256 GiB: link parts of it");
  }
  return static_cast<std::uint32_t>(place);
}

void SnapshotExtrasWriter::Write(SnapshotFileWriter& file) const {
  if (empty()) return;
  file.PadTo(offset_);
  file.Append(&places_, sizeof places_);
  file.PadTo(places_.posix.offset);
  if (listing_.has_posix()) WritePosix(file);
  if (listing_.has_lines()) WriteLines(file);
}

void SnapshotExtrasWriter::WritePosix(SnapshotFileWriter& file) const {
  for (std::uint32_t row = 0; row < tree_.rows.size(); ++row) {
    listing_.Passed(row);
    SnapshotPosixRecord record{};
    const std::optional<std::uint32_t> entry = tree_.EntryOf(row);
    if (entry) {
      const ListedExtras extras(listing_.ExtrasOf(listing_.entries()[*entry]));
      record = extras.posix().value_or(record);
    }
    file.Append(&record, sizeof record);
  }
}

void SnapshotExtrasWriter::WriteLines(SnapshotFileWriter& file) const {
  std::vector<std::uint64_t> first(tree_.rows.size(), 0);
  std::vector<std::uint64_t> next(lines_.size(), 0);
  // From the last line on: what is known of a row is its next line.
  std::uint64_t at = places_.lines.bytes;
  for (std::size_t i = lines_.size(); i-- > 0;) {
    at -= sizeof(SnapshotLineRecord) + lines_[i].bytes;
    next[i] = first[lines_[i].row];
    first[lines_[i].row] = at + 1;
  }
  file.PadTo(places_.line_rows.offset);
  file.Append(first.data(), first.size() * sizeof(std::uint64_t));
  file.PadTo(places_.lines.offset);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    const SnapshotLineRecord record{.row = line.row, .bytes = line.bytes, .next = next[i]};
    file.Append(&record, sizeof record);
    file.Append(line.json, line.bytes);
  }
}

}  // namespace forebay
