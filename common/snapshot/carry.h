#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

// What a snapshot holds, given to the builder of another one of the same link. kCorrupt: the
// snapshot is damaged.

/// Which paths (of hidden keys: what stands behind the link's prefix) are wanted.
using WantedPath = std::function<bool(std::string_view path)>;

/// A file of `from` with all that is known of it.
Status AddFileOf(const Snapshot& from, const SnapshotRow& row, std::string_view path,
                 SnapshotBuilder& builder);

/// The same, with these lines of a manifest in the place of its own.
Status AddFileOf(const Snapshot& from, const SnapshotRow& row, std::string_view path,
                 std::span<const AttributeLine> lines, SnapshotBuilder& builder);

/// Directories but for the root, each by a marker: one without entries exists by it alone, and the
/// time of any may be its marker's.
Status AddFoldersOf(const Snapshot& from, const WantedPath& wanted, SnapshotBuilder& builder);

Status AddHiddenOf(const Snapshot& from, const WantedPath& wanted, SnapshotBuilder& builder);

/// A hidden key as WantedPath gets it; of a link to one object there is nothing beside it.
std::string_view PathOfHidden(const Snapshot& from, std::string_view key);

}  // namespace forebay
