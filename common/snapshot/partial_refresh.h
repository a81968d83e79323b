#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/snapshot/carry.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

// Listing a part of a link anew: the rest comes from the generation before.
//
// The part is a path from the link's root, not empty: the key at it and all keys below it. The
// caller lists those, and the markers of the folders above it ("a/" and "a/b/" of "a/b/c"), which
// a snapshot does not remember where a folder has entries.

/// `path` is `part` or lies below it.
bool IsInPart(std::string_view path, std::string_view part);

/// False where keys outside of the part may change their meaning with it: a key that was hidden
/// because a folder above the part has its name shows again when that folder ends. List all then.
/// False too where the snapshot cannot be read.
bool CanRefreshPart(const Snapshot& previous, std::string_view part);

/// Adds what `previous` holds outside of the parts to `builder`: files, folders, hidden keys. Each
/// part may be refreshed (CanRefreshPart). Folders at, below and above the parts only where
/// `keeps_folder` says so. kCorrupt: the snapshot is damaged.
Status CarryOver(
    const Snapshot& previous, std::span<const std::string> parts, SnapshotBuilder& builder,
    const WantedPath& keeps_folder = [](std::string_view) { return false; });

}  // namespace forebay
