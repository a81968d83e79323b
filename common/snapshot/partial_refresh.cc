#include "common/snapshot/partial_refresh.h"

#include "common/model/key_rules.h"
#include "common/snapshot/carry.h"

namespace forebay {
namespace {

/// `path` is `part` or lies below it.
bool IsInside(std::string_view path, std::string_view part) {
  if (!path.starts_with(part)) return false;
  return path.size() == part.size() || path[part.size()] == '/';
}

}  // namespace

bool CanRefreshPart(const Snapshot& previous, std::string_view part) {
  if (part.empty() || IsSingleObjectPrefix(previous.source().prefix)) return false;
  bool possible = true;
  Status walked = previous.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (reason != HiddenReason::kShadowedByDirectory) return true;
    const std::string_view path = PathOfHidden(previous, key);
    if (path.size() < part.size() && IsInside(part, path)) possible = false;
    return possible;
  });
  return walked.has_value() && possible;
}

Status CarryOver(const Snapshot& previous, std::string_view part, SnapshotBuilder& builder) {
  Status added;
  Status walked = previous.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    if (IsInside(path, part)) return true;
    added = AddFileOf(previous, row, path, builder);
    return added.has_value();
  });
  if (!walked) return walked;
  if (!added) return added;
  // Nothing below these folders changes, so their markers say nothing new. Folders above the part
  // may end with it; their markers are listed.
  const auto has_folder = [&](std::string_view path) {
    return !IsInside(path, part) && !IsInside(part, path);
  };
  added = AddFoldersOf(previous, has_folder, builder);
  if (!added) return added;
  return AddHiddenOf(
      previous, [&](std::string_view path) { return !IsInside(path, part); }, builder);
}

}  // namespace forebay
