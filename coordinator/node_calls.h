#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/membership.h"
#include "common/wire/frame.h"
#include "common/wire/rpc.h"

namespace forebay {

/// A call to a cache node; ClientPool::Call in the program.
using NodeCaller = std::function<Task<Result<RpcReply>>(
    NodeInfo node, Method method, std::shared_ptr<const google::protobuf::MessageLite> request,
    Deadline deadline)>;

/// The same call to all nodes at once; answers in their order. One that does not come in time is
/// kTimeout. On the event loop that `call` belongs to.
Task<std::vector<Result<RpcReply>>> AskAll(
    NodeCaller call, std::vector<NodeInfo> nodes, Method method,
    std::shared_ptr<const google::protobuf::MessageLite> request, Deadline deadline);

}  // namespace forebay
