#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/membership.h"
#include "common/wire/frame.h"
#include "common/wire/rpc.h"
#include "coordinator/block_walk.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace forebay {

/// A call to a cache node; ClientPool::Call in the program.
using NodeCaller = std::function<Task<Result<RpcReply>>(
    NodeInfo node, Method method, std::shared_ptr<const google::protobuf::MessageLite> request,
    Deadline deadline)>;

/// Asks the nodes what they hold of a target and tells them to free it. Lives on the io_context
/// that `call` belongs to; `offload` outlives it.
class CacheCensus {
 public:
  CacheCensus(NodeCaller call, Offload& offload) : call_(std::move(call)), offload_(offload) {}

  /// How much of each root is cached at `nodes`; a block counts once, wherever it is. A node that
  /// does not answer is an error: what it holds is unknown, not absent.
  Task<Result<std::vector<CacheTally>>> Count(std::shared_ptr<const Snapshot> snapshot,
                                              std::vector<SnapshotRow> roots,
                                              std::vector<NodeInfo> nodes, Deadline deadline);

  /// Frees the blocks of `root` at every node; what each one freed, or why it did not answer.
  Task<Result<std::vector<proto::NodeEvicted>>> Evict(std::shared_ptr<const Snapshot> snapshot,
                                                      SnapshotRow root, std::vector<NodeInfo> nodes,
                                                      Deadline deadline);

  /// Frees all that the nodes hold of a link, of whatever generation.
  Task<std::vector<proto::NodeEvicted>> EvictLink(Uuid link, std::vector<NodeInfo> nodes,
                                                  Deadline deadline);

 private:
  using Request = std::shared_ptr<const google::protobuf::MessageLite>;
  /// The same call to all nodes at once; answers in their order.
  Task<std::vector<Result<RpcReply>>> AskAll(std::vector<NodeInfo> nodes, Method method,
                                             Request request, Deadline deadline);
  Task<Result<std::vector<bool>>> Present(std::shared_ptr<std::vector<WalkedBlock>> blocks,
                                          std::vector<NodeInfo> nodes, Deadline deadline);

  NodeCaller call_;
  Offload& offload_;
};

}  // namespace forebay
