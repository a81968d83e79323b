#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What a refresh found, in files.
struct SnapshotDifference {
  std::uint64_t added = 0;
  std::uint64_t removed = 0;
  std::uint64_t changed = 0;  ///< Same path, another ETag or size: another object version.
  /// Nothing that a mount shows differs: no file, folder, time or hidden key.
  bool same = false;
};

/// Compares two generations of one link, where `after` was built with `before` as its previous: a
/// file that did not change has the nodeid it had. kCorrupt: one of them is damaged.
Result<SnapshotDifference> Compare(const Snapshot& before, const Snapshot& after);

}  // namespace forebay
