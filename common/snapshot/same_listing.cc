#include "common/snapshot/same_listing.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "common/model/key_rules.h"
#include "common/snapshot/carry.h"

namespace forebay {
namespace {

/// Files below a directory; nothing where one of the directories has no entries, and so is there
/// because of a marker alone.
std::optional<std::uint64_t> CountFiles(const Snapshot& snapshot, std::uint32_t top) {
  const std::optional<SnapshotDirectory> first = snapshot.DirectoryAt(top);
  if (!first || first->end <= top) return std::nullopt;
  std::uint64_t entries = 0;
  for (std::uint32_t d = top; d < first->end; ++d) {
    const std::optional<SnapshotDirectory> directory = snapshot.DirectoryAt(d);
    if (!directory || directory->row_count == 0) return std::nullopt;
    entries += directory->row_count;
  }
  const std::uint64_t directories = first->end - top - 1;
  if (entries < directories) return std::nullopt;
  return entries - directories;
}

bool HidesSomething(const Snapshot& snapshot, std::string_view part) {
  bool hides = false;
  const Status walked = snapshot.ForEachHidden([&](std::string_view key, HiddenReason) {
    hides = PathOfHidden(snapshot, key).starts_with(part);
    return !hides;
  });
  return hides || !walked;
}

}  // namespace

SameListing::SameListing(const Snapshot& previous, std::string_view part) : previous_(previous) {
  const std::optional<SnapshotRow> row = previous.Resolve(part);
  if (!row || previous.has_posix() || HidesSomething(previous, part)) return;
  const auto files = row->is_directory() ? CountFiles(previous, row->directory) : 1;
  possible_ = files.has_value();
  files_left_ = files.value_or(0);
}

bool SameListing::HasLines(const SnapshotRow& row, std::span<const AttributeLine> lines) {
  if (!previous_.has_lines()) return lines.empty();
  const std::vector<AttributeLine> then = previous_.LinesOf(row);
  if (!std::ranges::equal(then, lines, {}, &AttributeLine::json, &AttributeLine::json)) {
    return false;
  }
  for (std::size_t i = 0; i < then.size(); ++i) {
    lines_.push_back({.now = lines[i].place, .row = row.index, .then = then[i].place});
  }
  return true;
}

/// Of the same lines in another order something has changed. Their places are in the file then and
/// in the manifest now: only their order can be compared, which a builder makes of place and row.
bool SameListing::HaveLinesTheirOrder() {
  std::ranges::sort(lines_, {},
                    [](const Line& line) { return std::tuple(line.now, line.row, line.then); });
  return std::ranges::is_sorted(lines_, {}, &Line::then);
}

bool SameListing::IsSame() { return possible_ && files_left_ == 0 && HaveLinesTheirOrder(); }

bool SameListing::Take(const ListedKey& object) {
  if (!possible_) return false;
  possible_ = false;
  const auto relative = RelativeKey(previous_.source().prefix, object.key);
  if (!relative || object.posix != nullptr) return false;
  const KeyVerdict verdict = JudgeKey(*relative);
  const bool shows_nothing = verdict.kind == KeyVerdict::Kind::kRootMarker && object.size == 0;
  if (!shows_nothing) {
    if (verdict.kind != KeyVerdict::Kind::kFile || files_left_ == 0) return false;
    const std::optional<SnapshotRow> row = previous_.Resolve(verdict.path);
    const bool same = row && !row->is_directory() && row->size == object.size &&
                      row->mtime_unix_s == object.mtime_unix_s &&
                      row->archived == object.archived && previous_.EtagOf(*row) == object.etag &&
                      HasLines(*row, object.lines);
    if (!same) return false;
    --files_left_;
  }
  possible_ = true;
  return true;
}

}  // namespace forebay
