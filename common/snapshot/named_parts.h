#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/carry.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

// Looking up a part of a link whose names a manifest says: the names are those that the generation
// before knows there, with their lines. So all of a generation goes by one version of the manifest,
// and the manifest is not read. Parts are as in partial_refresh.h.

/// False where all must be looked up: by CanRefreshPart, where `previous` knows no name at the part
/// (the manifest may have it by now), and where it does not know the lines of one, which are not
/// kept for hidden keys.
bool CanLookUpPart(const Snapshot& previous, std::string_view part);

/// The keys that `previous` knows at the parts, ascending, each once: files, hidden keys, and the
/// markers by which folders without entries are there. kCorrupt: the snapshot is damaged.
Result<std::vector<std::string>> NamesOfParts(const Snapshot& previous,
                                              std::span<const std::string> parts);

/// For CarryOver: which folders stay with the time and the metadata that they had when the keys
/// `gone` (ascending) are not there any more. A folder whose last file is gone does not stay: a
/// snapshot does not say whether the manifest names its marker. `previous` outlives what is
/// returned.
WantedPath FoldersLeft(const Snapshot& previous, std::vector<std::string> gone);

}  // namespace forebay
