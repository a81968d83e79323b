#include "coordinator/client_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/frozen_links.h"
#include "coordinator/snapshot_reads.h"

namespace forebay {
namespace {

proto::LinkState StateOf(const Link& link) {
  proto::LinkState state;
  *state.mutable_spec() = ToProto(link.spec);
  if (link.generation) *state.mutable_generation() = *link.generation;
  state.set_state(static_cast<std::uint32_t>(link.phase()));
  state.set_error(link.refresh_error);
  return state;
}

/// The request does not say which file it means, or it is the one that is here.
bool IsMeant(const std::optional<Link>& link, const proto::ReadSnapshotRequest& request) {
  if (request.digest_high() == 0 && request.digest_low() == 0) return true;
  if (!link) return false;
  const auto is_meant = [&](const auto& file) {
    return file.digest_high() == request.digest_high() && file.digest_low() == request.digest_low();
  };
  if (request.before() != 0) {
    return link->generation && std::ranges::any_of(link->generation->deltas(), is_meant);
  }
  for (const auto* generation : {&link->generation, &link->previous}) {
    if (*generation && (*generation)->generation() == request.generation())
      return is_meant(**generation);
  }
  return false;
}

}  // namespace

std::vector<MethodEntry> ClientService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back({Method::kGetRing, [this](RpcCall call) { return GetRing(std::move(call)); }});
  methods.push_back(
      {Method::kGetLinks, [this](RpcCall call) { return GetLinks(std::move(call)); }});
  methods.push_back(
      {Method::kReadSnapshot, [this](RpcCall call) { return ReadSnapshot(std::move(call)); }});
  return methods;
}

Task<Result<RpcReply>> ClientService::GetRing(RpcCall call) {
  proto::GetRingRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::GetRingReply reply;
  reply.set_epoch(membership_.epoch());
  *reply.mutable_fence() = ToProto(fence_);
  if (request.have_epoch() >= reply.epoch()) co_return ReplyWith(reply);
  co_return ReplyWith(reply, Slice::Of(membership_.SerializedTable()));
}

Task<Result<RpcReply>> ClientService::GetLinks(RpcCall call) {
  proto::GetLinksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  mounts_.Note(request, call.peer, Clock::now());
  proto::GetLinksReply reply;
  reply.set_cluster(BytesOf(cluster_));
  *reply.mutable_fence() = ToProto(fence_);
  reply.set_links_version(links_.version());
  const std::string& name = request.name();
  for (const Link& link : name.empty() ? links_.All() : links_.PartsOf(name)) {
    if (MayRead(call.peer, link.spec.name, link.spec.set)) *reply.add_links() = StateOf(link);
  }
  if (name.empty() || reply.links_size() > 0) co_return ReplyWith(reply);
  Result<Link> link = links_.Find(name);
  // Who may not have it learns not even whether there is one.
  if (!MayRead(call.peer, name, link ? link->spec.set : ""))
    co_return Fail(NotGranted(call.peer, name));
  if (!link) co_return Fail(link.error());
  *reply.add_links() = StateOf(*link);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> ClientService::ReadSnapshot(RpcCall call) {
  proto::ReadSnapshotRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::optional<Link> link = links_.FindById(UuidFromBytes(request.link()));
  if (call.peer.terms.links && (!link || !MayRead(call.peer, link->spec.name, link->spec.set)))
    co_return Fail(NotGranted(call.peer, link ? link->spec.name : "?"));
  if (!IsMeant(link, request)) {
    co_return Fail(Code::kNotFound,
                   "this file of the link's listing is not kept any more: ask for "
                   "the current one");
  }
  const bool whole = request.before() == 0;
  // A damaged file is not handed on.
  if (link && whole && IsListingLost(*link)) co_return Fail(LostListing(*link));
  Result<RpcReply> reply = co_await ReadPublished(
      index_, offload_, replies_, ReplyRoom::PayerOf(call.peer), std::move(request));
  if (reply) {
    std::atomic<std::uint64_t>& sent = whole ? sent_.whole_bytes : sent_.difference_bytes;
    sent.fetch_add(reply->payload.bytes.size(), std::memory_order_relaxed);
  }
  co_return reply;
}

}  // namespace forebay
