#pragma once

#include "common/base/result.h"
#include "common/model/block_source.h"
#include "common/wire/rpc.h"
#include "proto/node.pb.h"

// A question for bytes of a block and its answer, for those who ask and those who are asked.
namespace forebay {

proto::ReadBlockRequest ToProto(const BlockRequest& request);
BlockRequest FromProto(const proto::ReadBlockRequest& message);

/// What a node answered to `request`, verified: the cells lie where they should, enclose the range
/// and match their checksums. Tier as the node says. kCorrupt says what does not match; kInvalid:
/// the answer cannot be read.
Result<Cells> CellsOfReply(const BlockRequest& request, RpcReply reply);
/// The same of an answer that has been read: `payload` came with it, or was found where it says.
Result<Cells> CellsOfReply(const BlockRequest& request, const proto::ReadBlockReply& message,
                           Slice payload);

}  // namespace forebay
