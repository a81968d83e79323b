#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

// Listing a part of a link anew: the rest comes from the generation before.
//
// The part is a path from the link's root, not empty: the key at it and all keys below it. The
// caller lists those, and the markers of the folders above it ("a/" and "a/b/" of "a/b/c"), which
// a snapshot does not remember where a folder has entries.

/// False where keys outside of the part may change their meaning with it: a key that was hidden
/// because a folder above the part has its name shows again when that folder ends. List all then.
/// False too where the snapshot cannot be read.
bool CanRefreshPart(const Snapshot& previous, std::string_view part);

/// Adds what `previous` holds outside of the part to `builder`: files, folders, hidden keys.
/// kCorrupt: the snapshot is damaged.
Status CarryOver(const Snapshot& previous, std::string_view part, SnapshotBuilder& builder);

}  // namespace forebay
