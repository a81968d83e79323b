#include "common/snapshot/delta_lines.h"

#include <algorithm>

#include "common/snapshot/delta_format.h"
#include "common/snapshot/tree_cursor.h"

namespace forebay {

Result<DeltaLines> DeltaLines::Of(const Snapshot& before, const Snapshot& after,
                                  std::uint64_t bytes_max) {
  DeltaLines lines(before, after);
  lines.any_ = before.has_lines() || after.has_lines();
  if (!lines.any_) return lines;
  // All are of objects that are hidden: a builder that gets none makes another file.
  if (after.has_lines() && after.line_bytes() == 0) {
    lines.why_none_ = "the manifest has lines, and no file shows one";
    return lines;
  }
  if (lines.FindFiles() && lines.PlaceLines(bytes_max)) return lines;
  return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
}

bool DeltaLines::HasStayed(const SnapshotRow& then, const SnapshotRow& now) const {
  return any_ ? stayed_[now.index] == then.index + 1 : IsSameFile(then, now);
}

std::vector<AttributeLine> DeltaLines::LinesOf(const SnapshotRow& now) const {
  std::vector<AttributeLine> lines;
  for (const AttributeLine& line : after_->LinesOf(now)) {
    const auto known = std::ranges::lower_bound(new_, line.place, {}, &NewLine::at);
    if (known == new_.end() || known->at != line.place) continue;  // the file is damaged
    lines.push_back({.place = known->place, .json = line.json});
  }
  return lines;
}

// A row whose size and ETag did not change keeps its nodeid, and no other gets it.
bool DeltaLines::IsSameFile(const SnapshotRow& then, const SnapshotRow& now) const {
  return then.nodeid == now.nodeid && then.kind == now.kind && then.size == now.size &&
         then.mtime_unix_s == now.mtime_unix_s && then.archived == now.archived &&
         before_->PosixOf(then) == after_->PosixOf(now);
}

/// False where a snapshot is damaged.
bool DeltaLines::FindFiles() {
  stayed_.resize(after_->rows());
  stays_.resize(before_->rows());
  TreePair pair(*before_, *after_);
  while (pair.Next()) {
    if (pair.order() != 0) continue;
    const SnapshotRow& then = pair.then().row();
    const SnapshotRow& now = pair.now().row();
    const bool same = !now.is_directory() && IsSameFile(then, now) &&
                      std::ranges::equal(before_->LinesOf(then), after_->LinesOf(now), {},
                                         &AttributeLine::json, &AttributeLine::json);
    if (!same) continue;
    stayed_[now.index] = then.index + 1;
    stays_[then.index] = true;
  }
  return !pair.damaged();
}

bool DeltaLines::NextThatStays(LineCursor& then) const {
  while (then.Next()) {
    if (stays_[then.row()]) return true;
  }
  return false;
}

/// Between lines that stay, which have to stay in their order. False where a snapshot is damaged.
bool DeltaLines::PlaceLines(std::uint64_t bytes_max) {
  LineCursor then(*before_);
  LineCursor now(*after_);
  bool has_then = NextThatStays(then);
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  while (now.Next()) {
    const std::uint32_t stayed = stayed_[now.row()];
    if (stayed != 0) {
      if (!has_then || then.row() + 1 != stayed) {
        why_none_ = "lines of the manifest have another order";
        return !then.damaged();
      }
      has_then = NextThatStays(then);
      number = 0;
      continue;
    }
    const DeltaLinePlace place{.before = has_then ? then.place() : before_->line_bytes(),
                               .number = number++};
    bytes += now.json().size();
    if (bytes > bytes_max || new_.size() == kDeltaLinesMax ||
        place.before > DeltaLinePlace::kBeforeMax) {
      why_none_ = "too much has changed";
      return true;
    }
    new_.push_back({.at = now.place(), .place = place.Packed()});
  }
  return !now.damaged() && !then.damaged() && !has_then;
}

}  // namespace forebay
