#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/model/shard.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

/// How Shard divides the files: into equal counts, or by their names (HasName).
enum class ShardDeal : std::uint8_t { kEqually = 0, kByName = 1 };

/// Builds at `path` what `shard` shows of the files below `directory` of `whole`: a snapshot of the
/// same generation in which the other files are missing, and those of other directories. All
/// directories stay, empty ones too: programs number classes by them, and every shard must number
/// alike. Nodeids, times and hidden keys are those of `whole`.
///
/// kCorrupt: `whole` is damaged. Else as SnapshotBuilder::Finish.
Result<FinishedSnapshot> BuildShard(const std::shared_ptr<const Snapshot>& whole,
                                    std::uint32_t directory, const Shard& shard, ShardDeal deal,
                                    const std::string& path);

}  // namespace forebay
