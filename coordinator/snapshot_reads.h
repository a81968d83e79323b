#pragma once

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/wire/rpc.h"
#include "coordinator/namespace_index.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Answers kReadSnapshot from the files that are open. kInvalid: the request is wrong; kNotFound:
/// this generation is not kept. `index` and `offload` live until it has ended.
Task<Result<RpcReply>> ReadPublished(const NamespaceIndex& index, Offload& offload,
                                     proto::ReadSnapshotRequest request);

}  // namespace forebay
