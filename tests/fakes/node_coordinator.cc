#include "tests/fakes/node_coordinator.h"

#include <utility>

#include "common/wire/messages.h"

namespace forebay::fakes {

NodeCoordinator::NodeCoordinator(std::string secret, std::string listen) {
  Credentials credentials;
  credentials.role = proto::ROLE_COORDINATOR;
  credentials.id = "coordinator";
  credentials.program = "node-coordinator";
  credentials.cluster = cluster_;
  credentials.secret = Secret(std::move(secret));
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kGetLinks, [this](RpcCall call) { return AnswerLinks(std::move(call)); }});
  methods.push_back(
      {Method::kRegisterNode, [this](RpcCall call) { return AnswerRegister(std::move(call)); }});
  methods.push_back(
      {Method::kHeartbeat, [this](RpcCall call) { return AnswerHeartbeat(std::move(call)); }});
  server_ =
      std::make_unique<FakeServer>(std::move(credentials), std::move(listen), std::move(methods));
}

void NodeCoordinator::SetLease(const Uuid& link, double requests_per_s) {
  const std::scoped_lock lock(mutex_);
  if (requests_per_s == 0) {
    leases_.erase(link);
  } else {
    leases_[link] = requests_per_s;
  }
}

void NodeCoordinator::SetLinks(std::vector<LinkSpec> links) {
  const std::scoped_lock lock(mutex_);
  links_ = std::move(links);
  ++links_version_;
}

void NodeCoordinator::ForgetNodes() {
  const std::scoped_lock lock(mutex_);
  known_ = false;
}

void NodeCoordinator::Refuse(std::optional<Error> why) {
  const std::scoped_lock lock(mutex_);
  refusal_ = std::move(why);
}

proto::RegisterNodeRequest NodeCoordinator::last_registration() const {
  const std::scoped_lock lock(mutex_);
  return last_registration_;
}

proto::HeartbeatRequest NodeCoordinator::last_heartbeat() const {
  const std::scoped_lock lock(mutex_);
  return last_heartbeat_;
}

Task<Result<RpcReply>> NodeCoordinator::AnswerLinks(RpcCall) {
  proto::GetLinksReply reply;
  reply.set_cluster(BytesOf(cluster_));
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> NodeCoordinator::AnswerRegister(RpcCall call) {
  proto::RegisterNodeRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  if (refusal_) co_return Fail(*refusal_);
  last_registration_ = request;
  known_ = true;
  ++registrations_;
  proto::RegisterNodeReply reply;
  reply.mutable_fence()->set_epoch(fence_);
  reply.set_cluster(BytesOf(cluster_));
  reply.set_links_version(links_version_);
  for (const LinkSpec& link : links_) *reply.add_links() = ToProto(link);
  co_return ReplyWith(reply, server_->Ring());
}

Task<Result<RpcReply>> NodeCoordinator::AnswerHeartbeat(RpcCall call) {
  proto::HeartbeatRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  last_heartbeat_ = request;
  ++heartbeats_;
  proto::HeartbeatReply reply;
  reply.mutable_fence()->set_epoch(fence_);
  reply.set_register_again(!known_);
  reply.set_links_version(links_version_);
  if (request.links_version() != links_version_) {
    for (const LinkSpec& link : links_) *reply.add_links() = ToProto(link);
  }
  for (const auto& [link, requests_per_s] : leases_) {
    proto::RequestLease& lease = *reply.add_leases();
    lease.set_link(BytesOf(link));
    lease.set_requests_per_s(requests_per_s);
  }
  co_return ReplyWith(reply);
}

}  // namespace forebay::fakes
