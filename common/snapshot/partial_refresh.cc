#include "common/snapshot/partial_refresh.h"

#include <algorithm>

#include "common/model/key_rules.h"

namespace forebay {

bool IsInPart(std::string_view path, std::string_view part) {
  if (!path.starts_with(part)) return false;
  return path.size() == part.size() || path[part.size()] == '/';
}

bool CanRefreshPart(const Snapshot& previous, std::string_view part) {
  if (part.empty() || IsSingleObjectPrefix(previous.source().prefix)) return false;
  bool possible = true;
  Status walked = previous.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (reason != HiddenReason::kShadowedByDirectory) return true;
    const std::string_view path = PathOfHidden(previous, key);
    if (path.size() < part.size() && IsInPart(part, path)) possible = false;
    return possible;
  });
  return walked.has_value() && possible;
}

Status CarryOver(const Snapshot& previous, std::span<const std::string> parts,
                 SnapshotBuilder& builder, const WantedPath& keeps_folder) {
  const auto is_listed = [parts](std::string_view path) {
    return std::ranges::any_of(parts,
                               [&](const std::string& part) { return IsInPart(path, part); });
  };
  Status added;
  Status walked = previous.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    if (is_listed(path)) return true;
    added = AddFileOf(previous, row, path, builder);
    return added.has_value();
  });
  if (!walked) return walked;
  if (!added) return added;
  // Nothing below these folders changes, so their markers say nothing new. Folders above a part
  // may end with it; their markers are listed.
  const auto has_folder = [&](std::string_view path) {
    const bool is_around =
        is_listed(path) ||
        std::ranges::any_of(parts, [&](const std::string& part) { return IsInPart(part, path); });
    return !is_around || keeps_folder(path);
  };
  added = AddFoldersOf(previous, has_folder, builder);
  if (!added) return added;
  return AddHiddenOf(previous, [&](std::string_view path) { return !is_listed(path); }, builder);
}

}  // namespace forebay
