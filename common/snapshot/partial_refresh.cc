#include "common/snapshot/partial_refresh.h"

#include <cstdint>
#include <optional>
#include <string>

#include "common/model/key_rules.h"

namespace forebay {
namespace {

/// `path` is `part` or lies below it.
bool IsInside(std::string_view path, std::string_view part) {
  if (!path.starts_with(part)) return false;
  return path.size() == part.size() || path[part.size()] == '/';
}

/// The hidden key's path as S3 has it; of a link to one object there is nothing beside it.
std::string_view RelativeTo(const Snapshot& snapshot, std::string_view key) {
  const std::string_view prefix = snapshot.source().prefix;
  return key.starts_with(prefix) ? key.substr(prefix.size()) : key;
}

Status CarryFiles(const Snapshot& previous, std::string_view part, SnapshotBuilder& builder) {
  Status added;
  Status walked = previous.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    if (IsInside(path, part)) return true;
    const std::string key = KeyAtPath(previous.source().prefix, path);
    const std::string etag = previous.EtagOf(row);
    added = builder.Add(ListedKey{.key = key,
                                  .size = row.size,
                                  .etag = etag,
                                  .mtime_unix_s = row.mtime_unix_s,
                                  .archived = row.archived});
    return added.has_value();
  });
  return walked ? added : walked;
}

/// By a marker each: a folder without entries exists by it alone, and any folder's time may be its
/// marker's. Nothing below these folders changes, so the marker says nothing new. Folders above
/// the part may end with it; their markers are listed.
Status CarryFolders(const Snapshot& previous, std::string_view part, SnapshotBuilder& builder) {
  for (std::uint32_t d = 1; d < previous.directories(); ++d) {
    const std::optional<SnapshotDirectory> directory = previous.DirectoryAt(d);
    if (!directory) return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
    const bool outside = !IsInside(directory->path, part) && !IsInside(part, directory->path);
    if (!outside) continue;
    const std::optional<SnapshotRow> row = previous.RowAt(directory->row);
    if (!row) return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
    const std::string key = KeyAtPath(previous.source().prefix, directory->path) + "/";
    Status added = builder.Add(ListedKey{.key = key, .mtime_unix_s = row->mtime_unix_s});
    if (!added) return added;
  }
  return {};
}

}  // namespace

bool CanRefreshPart(const Snapshot& previous, std::string_view part) {
  if (part.empty() || IsSingleObjectPrefix(previous.source().prefix)) return false;
  bool possible = true;
  Status walked = previous.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (reason != HiddenReason::kShadowedByDirectory) return true;
    const std::string_view path = RelativeTo(previous, key);
    if (path.size() < part.size() && IsInside(part, path)) possible = false;
    return possible;
  });
  return walked.has_value() && possible;
}

Status CarryOver(const Snapshot& previous, std::string_view part, SnapshotBuilder& builder) {
  Status carried = CarryFiles(previous, part, builder);
  if (carried) carried = CarryFolders(previous, part, builder);
  if (!carried) return carried;
  return previous.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (!IsInside(RelativeTo(previous, key), part)) builder.AddHidden(key, reason);
    return true;
  });
}

}  // namespace forebay
