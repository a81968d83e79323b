#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// A part of a listing: entries, and the rows they stand for (none for hidden keys).
struct TargetPage {
  std::vector<proto::ListedEntry> entries;
  std::vector<SnapshotRow> rows;
  std::uint64_t next_cursor = 0;  ///< 0 = complete.
};

/// At most `limit` entries of a folder from `cursor` on, or the one file. Reads the mapped file:
/// call it on Offload.
Result<TargetPage> ListEntries(const Snapshot& snapshot, const SnapshotRow& target,
                               std::uint64_t cursor, std::uint32_t limit);

/// At most `limit` hidden keys below a folder, with their reasons.
Result<TargetPage> ListHidden(const Snapshot& snapshot, const SnapshotRow& target,
                              std::uint64_t cursor, std::uint32_t limit);

}  // namespace forebay
