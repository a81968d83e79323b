#include "tests/fakes/node_coordinator.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <stdexcept>
#include <utility>

#include "common/wire/messages.h"

namespace forebay::fakes {
namespace {

Slice Serialized(const RingTable& table) {
  auto bytes = std::make_shared<const std::string>(table.Serialize());
  const ByteView view(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  return Slice{std::move(bytes), view};
}

}  // namespace

NodeCoordinator::NodeCoordinator(std::string secret, std::string listen) {
  RpcServerOptions options;
  options.listen = {std::move(listen)};
  options.credentials.role = proto::ROLE_COORDINATOR;
  options.credentials.id = "coordinator";
  options.credentials.program = "node-coordinator";
  options.credentials.cluster = cluster_;
  options.credentials.secret = Secret(std::move(secret));
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kGetLinks, [this](RpcCall call) { return AnswerLinks(std::move(call)); }});
  methods.push_back(
      {Method::kRegisterNode, [this](RpcCall call) { return AnswerRegister(std::move(call)); }});
  methods.push_back(
      {Method::kHeartbeat, [this](RpcCall call) { return AnswerHeartbeat(std::move(call)); }});
  methods.push_back(
      {Method::kGetRing, [this](RpcCall call) { return AnswerRing(std::move(call)); }});
  pool_.Start();
  server_ = std::make_unique<RpcServer>(
      pool_, std::move(options), std::move(methods), [this] { return epoch_.load(); },
      [](std::uint64_t) {});
  const Status started = server_->Start();
  if (!started) throw std::runtime_error(started.error().message);
  address_ = server_->addresses().front();
}

NodeCoordinator::~NodeCoordinator() { Stop(); }

void NodeCoordinator::Stop() {
  if (!server_) return;
  server_->Stop(Deadline::After({}));
  // The port is closed on the event loop: connections are refused from here on, not left waiting.
  std::promise<void> closed;
  asio::post(pool_.At(0), [&] { closed.set_value(); });
  closed.get_future().wait();
  pool_.Stop();
  server_.reset();
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

void NodeCoordinator::SetRing(RingTable table) {
  const std::scoped_lock lock(mutex_);
  epoch_ = table.epoch();
  ring_ = std::move(table);
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
  co_return ReplyWith(reply, Serialized(ring_));
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

Task<Result<RpcReply>> NodeCoordinator::AnswerRing(RpcCall call) {
  proto::GetRingRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  proto::GetRingReply reply;
  reply.set_epoch(ring_.epoch());
  if (request.have_epoch() >= ring_.epoch()) co_return ReplyWith(reply);
  co_return ReplyWith(reply, Serialized(ring_));
}

}  // namespace forebay::fakes
