#pragma once

#include <cstdint>
#include <optional>

#include "common/base/result.h"
#include "common/model/fence.h"
#include "coordinator/state_store.h"

namespace forebay {

// A coordinator that nodes have told of a newer one speaks for an old copy of the state, or for a
// twin. Each start raises the epoch of its store; were that what nodes are told, a few restarts
// would make them believe it. So it is remembered in the state, and later starts speak under the
// same fence: who followed it goes on to, who knows better does not. Only `forebay restore` ends
// that (docs/adr/0047).

/// The row of the state; no part of a backup.
inline constexpr const char* kOutdatedKey = "outdated";

/// What to speak under, if nodes have said so before. Blocks.
Result<std::optional<Fence>> OutdatedFence(StateStore& store);

/// A node has heard of a newer coordinator than the one that says `said` and writes under `fence`.
/// Blocks.
Status MarkOutdated(StateStore& store, const Fence& said, std::uint64_t fence);

}  // namespace forebay
