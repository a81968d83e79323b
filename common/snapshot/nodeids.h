#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/listing.h"
#include "common/snapshot/snapshot_builder.h"
#include "common/snapshot/tree.h"

namespace forebay {

struct Nodeids {
  std::vector<std::uint64_t> by_row;
  std::vector<std::uint32_t> slots;  ///< SnapshotSection::kNodeidSlots.
};

/// Gives every row its nodeid: the root 1, a file kFirstFileNodeid or more from its object version,
/// a directory kDirectoryNodeidBit and a hash of (domain, path). Rows of `options.previous` with
/// the same path, ETag and size keep theirs; a nodeid that is taken there or here is hashed again
/// with the next salt, in row order, so the outcome is the same on every machine. kInternal: no
/// free nodeid was found (only with a short hash).
Result<Nodeids> AssignNodeids(const SnapshotOptions& options, const Listing& listing,
                              const SnapshotTree& tree);

}  // namespace forebay
