#include "common/snapshot/difference.h"

#include <optional>
#include <string_view>

#include "common/snapshot/tree_cursor.h"

namespace forebay {
namespace {

/// Every folder of `after` is in `before`, with the same number of entries.
bool SameFolders(const Snapshot& before, const Snapshot& after) {
  if (before.directories() != after.directories()) return false;
  for (std::uint32_t d = 0; d < after.directories(); ++d) {
    const std::optional<SnapshotDirectory> now = after.DirectoryAt(d);
    const std::optional<SnapshotDirectory> then = before.DirectoryAt(d);
    if (!now || !then || now->path != then->path || now->row_count != then->row_count) return false;
    const auto row_now = after.RowAt(now->row);
    const auto row_then = before.RowAt(then->row);
    if (!row_now || !row_then || after.PosixOf(*row_now) != before.PosixOf(*row_then)) return false;
  }
  return true;
}

bool SameHidden(const Snapshot& before, const Snapshot& after) {
  if (before.totals() != after.totals()) return false;
  std::uint64_t hash_before = 0;
  std::uint64_t hash_after = 0;
  const auto fold = [](std::uint64_t& sum) {
    return [&sum](std::string_view key, HiddenReason) {
      sum = SnapshotNameHash(static_cast<std::uint32_t>(sum), key);
      return true;
    };
  };
  return before.ForEachHidden(fold(hash_before)) && after.ForEachHidden(fold(hash_after)) &&
         hash_before == hash_after;
}

/// The same lines of a manifest for the same files, in the same order.
bool SameLines(const Snapshot& before, const Snapshot& after) {
  std::uint64_t hash_before = 0;
  std::uint64_t hash_after = 0;
  const auto fold = [](std::uint64_t& sum) {
    return [&sum](const SnapshotRow& row, std::string_view json) {
      sum = SnapshotNameHash(static_cast<std::uint32_t>(sum ^ row.nodeid), json) ^ (sum >> 32);
      return true;
    };
  };
  return before.ForEachLine(fold(hash_before)) && after.ForEachLine(fold(hash_after)) &&
         hash_before == hash_after;
}

}  // namespace

Result<SnapshotDifference> Compare(const Snapshot& before, const Snapshot& after) {
  SnapshotDifference difference;
  std::uint64_t kept = 0;
  bool same_times = true;
  TreePair pair(before, after);
  while (pair.Next()) {
    if (pair.order() < 0 || pair.now().row().is_directory()) continue;
    const SnapshotRow& row = pair.now().row();
    if (pair.order() > 0 || pair.then().row().is_directory()) {
      ++difference.added;
      continue;
    }
    // A row whose size and ETag did not change keeps its nodeid, and no other gets it.
    const SnapshotRow& known = pair.then().row();
    if (known.nodeid != row.nodeid) {
      ++difference.changed;
      continue;
    }
    ++kept;
    same_times = same_times && known.mtime_unix_s == row.mtime_unix_s &&
                 known.archived == row.archived && before.PosixOf(known) == after.PosixOf(row);
  }
  if (pair.damaged()) {
    return Fail(Code::kCorrupt, "the snapshot is damaged: drop it and fetch it again");
  }
  const std::uint64_t known = kept + difference.changed;
  if (known > before.totals().objects) {
    return Fail(Code::kCorrupt, "two generations of the link do not belong together");
  }
  difference.removed = before.totals().objects - known;
  difference.same = difference.added == 0 && difference.changed == 0 && difference.removed == 0 &&
                    same_times && SameFolders(before, after) && SameHidden(before, after) &&
                    SameLines(before, after);
  return difference;
}

}  // namespace forebay
