#include "coordinator/node_service.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/wire/messages.h"

namespace forebay {

std::vector<MethodEntry> NodeService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kRegisterNode, [this](RpcCall call) { return Register(std::move(call)); }});
  methods.push_back(
      {Method::kHeartbeat, [this](RpcCall call) { return Heartbeat(std::move(call)); }});
  return methods;
}

Task<Result<RpcReply>> NodeService::Register(RpcCall call) {
  proto::RegisterNodeRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<NodeInfo> info = FromProto(request.node());
  if (!info) co_return Fail(info.error());
  if (info->id != call.peer.id) {
    co_return Fail(Code::kDenied, "node " + call.peer.id + " may not register as " + info->id);
  }
  Status registered = co_await membership_.Register(*info, request.incarnation());
  if (!registered) {
    NoteRefusal(*info, registered.error().message);
    co_return Fail(registered.error());
  }
  refused_.erase(info->id);
  proto::RegisterNodeReply reply;
  reply.set_cluster(BytesOf(cluster_));
  // The version first: links that change in between come with the next heartbeat.
  reply.set_links_version(links_.version());
  for (const LinkSpec& link : links_.Specs()) *reply.add_links() = ToProto(link);
  co_return ReplyWith(reply, Slice::Of(membership_.SerializedTable()));
}

void NodeService::NoteRefusal(const NodeInfo& node, const std::string& why) {
  if (refused_.size() >= kMaxRingNodes) refused_.clear();
  std::string& said = refused_[node.id];
  if (said == why) return;
  said = why;
  spdlog::warn("node {} at {} was refused: {}", node.id, node.address, why);
}

Task<Result<RpcReply>> NodeService::Heartbeat(RpcCall call) {
  proto::HeartbeatRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  if (request.node_id() != call.peer.id) {
    co_return Fail(Code::kDenied,
                   "node " + call.peer.id + " may not report for " + request.node_id());
  }
  proto::HeartbeatReply reply;
  const bool known = membership_.Heartbeat(request.node_id(), request.incarnation());
  reply.set_register_again(!known);
  if (known) stats_.Report(request);
  if (known) changed_.Note(request);
  if (known) requests_.Report(request, Clock::now());
  for (proto::RequestLease& lease : requests_.LeasesOf(request.node_id()))
    *reply.add_leases() = std::move(lease);
  *reply.mutable_fill_limits() =
      ToProto(ShareOf(budget_.record(), membership_.CapacityShare(request.node_id())));
  const std::uint64_t version = links_.version();
  reply.set_links_version(version);
  if (request.links_version() != version) {
    for (const LinkSpec& link : links_.Specs()) *reply.add_links() = ToProto(link);
  }
  co_return ReplyWith(reply);
}

}  // namespace forebay
