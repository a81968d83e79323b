#pragma once

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/wire/reply_room.h"
#include "common/wire/rpc.h"
#include "coordinator/namespace_index.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Answers kReadSnapshot from the files that are open. kInvalid: the request is wrong; kNotFound:
/// this generation is not kept; kOverloaded: no room for the bytes, which keep their place in
/// `room`. All that is referred to lives until it has ended, and `room` as long as the reply.
Task<Result<RpcReply>> ReadPublished(const NamespaceIndex& index, Offload& offload, ReplyRoom& room,
                                     ReplyRoom::Payer payer, proto::ReadSnapshotRequest request);

}  // namespace forebay
