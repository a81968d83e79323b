#include "common/snapshot/named_parts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/model/key_rules.h"
#include "common/snapshot/partial_refresh.h"

namespace forebay {
namespace {

/// Calls `visit` for the hidden keys of a part until it answers false.
Status ForEachHiddenIn(const Snapshot& snapshot, std::string_view part,
                       const std::function<bool(std::string_view key)>& visit) {
  return snapshot.ForEachHidden([&](std::string_view key, HiddenReason) {
    return !IsInPart(PathOfHidden(snapshot, key), part) || visit(key);
  });
}

/// What is below a directory.
Status AddNamesBelow(const Snapshot& previous, std::uint32_t top, std::vector<std::string>& names) {
  const std::string_view prefix = previous.source().prefix;
  Status walked = previous.ForEachFile(top, [&](const SnapshotRow&, std::string_view path) {
    names.push_back(KeyAtPath(prefix, path));
    return true;
  });
  if (!walked) return walked;
  const std::optional<SnapshotDirectory> first = previous.DirectoryAt(top);
  const std::uint32_t end = first ? first->end : top;
  for (std::uint32_t d = top; d < end; ++d) {
    const std::optional<SnapshotDirectory> directory = previous.DirectoryAt(d);
    if (!directory) return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
    if (directory->row_count == 0) names.push_back(KeyAtPath(prefix, directory->path) + "/");
  }
  return {};
}

}  // namespace

bool CanLookUpPart(const Snapshot& previous, std::string_view part) {
  if (!CanRefreshPart(previous, part)) return false;
  bool hides = false;
  const Status walked = ForEachHiddenIn(previous, part, [&](std::string_view) {
    hides = true;
    return false;
  });
  if (!walked) return false;
  return hides ? !previous.has_lines() : previous.Resolve(part).has_value();
}

Result<std::vector<std::string>> NamesOfParts(const Snapshot& previous,
                                              std::span<const std::string> parts) {
  std::vector<std::string> names;
  for (const std::string& part : parts) {
    const std::optional<SnapshotRow> row = previous.Resolve(part);
    Status added;
    if (row && row->is_directory()) {
      added = AddNamesBelow(previous, row->directory, names);
    } else if (row) {
      names.push_back(previous.KeyOf(*row));
    }
    if (added) {
      added = ForEachHiddenIn(previous, part, [&](std::string_view key) {
        names.emplace_back(key);
        return true;
      });
    }
    if (!added) return Fail(added.error());
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

WantedPath FoldersLeft(const Snapshot& previous, std::vector<std::string> gone) {
  return [&previous, gone = std::move(gone)](std::string_view folder) {
    const std::string_view prefix = previous.source().prefix;
    const std::string below = KeyAtPath(prefix, folder) + "/";
    const auto first = std::ranges::lower_bound(gone, below);
    if (first == gone.end() || !first->starts_with(below)) return true;
    const std::optional<SnapshotRow> row = previous.Resolve(folder);
    if (!row || !row->is_directory()) return false;
    bool left = false;
    const Status walked =
        previous.ForEachFile(row->directory, [&](const SnapshotRow&, std::string_view path) {
          left = !std::ranges::binary_search(gone, KeyAtPath(prefix, path));
          return !left;
        });
    return walked && left;
  };
}

}  // namespace forebay
