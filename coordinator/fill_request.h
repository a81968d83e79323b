#pragma once

#include <memory>
#include <vector>

#include "common/model/link.h"
#include "common/snapshot/snapshot.h"
#include "coordinator/preload_plan.h"
#include "proto/node.pb.h"

namespace forebay {

/// kFillBlocks for these blocks of one link, with the objects that they are cut from. Null: the
/// snapshot is damaged. Reads the snapshot: call it on Offload.
std::shared_ptr<proto::FillBlocksRequest> FillRequestFor(const LinkSpec& link,
                                                         const Snapshot& snapshot,
                                                         const std::vector<PreloadPiece>& pieces);

}  // namespace forebay
