#include "coordinator/node_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "common/model/alert.h"
#include "common/model/disk_state.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

/// A node that has not said it for so long follows this coordinator, or is gone.
constexpr std::chrono::seconds kWordOfNode{60};

/// Of what nodes said by name: who said it first of those whose word still holds, how many they
/// are, and how long ago that was.
template <typename Word>
struct Said {
  const std::pair<const std::string, Word>* first = nullptr;
  std::size_t count = 0;
  std::chrono::seconds ago{};
};
template <typename Word>
Said<Word> StillSaid(const std::map<std::string, Word>& words, TimePoint now) {
  Said<Word> said;
  for (const auto& row : words) {
    if (now - row.second.last > kWordOfNode) continue;
    ++said.count;
    if (said.first == nullptr || row.second.since < said.first->second.since) said.first = &row;
  }
  if (said.first != nullptr)
    said.ago = std::chrono::duration_cast<std::chrono::seconds>(now - said.first->second.since);
  return said;
}

/// What the node's disks in service hold; nothing when it names none.
std::optional<std::uint64_t> RoomOf(const proto::HeartbeatRequest& request) {
  if (request.disks().empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const proto::DiskReport& disk : request.disks())
    if (IsState(disk.state(), DiskState::kOk)) bytes += disk.capacity_bytes();
  return bytes;
}

}  // namespace

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
  Status believed = CheckFence(info->id, FromProto(request.fence()));
  if (!believed) co_return Fail(believed.error());
  Status registered = co_await membership_.Register(*info, request.incarnation());
  if (!registered) {
    NoteRefusal(*info, request.incarnation(), registered.error());
    co_return Fail(registered.error());
  }
  refused_.erase(info->id);
  doubled_.NoteTaken(*info, request.incarnation());
  proto::RegisterNodeReply reply;
  reply.set_cluster(BytesOf(cluster_));
  // The version first: links that change in between come with the next heartbeat.
  *reply.mutable_fence() = ToProto(fence_);
  reply.set_links_version(links_.version());
  for (const LinkSpec& link : links_.Specs()) *reply.add_links() = ToProto(link);
  co_return ReplyWith(reply, Slice::Of(membership_.SerializedTable()));
}

/// kUnavailable, so that the node asks the next coordinator of its list.
Status NodeService::CheckFence(const std::string& node, const Fence& heard) {
  if (Believes(heard, fence_)) {
    newer_.erase(node);
    return {};
  }
  has_heard_of_newer_ = true;
  const TimePoint now = Clock::now();
  std::erase_if(newer_, [now](const auto& row) { return now - row.second.last > kWordOfNode; });
  if (newer_.empty()) {
    spdlog::error(
        "node {} has heard of a newer coordinator ({}; this one began with {}): either another "
        "coordinator of this cluster runs, or this one was started from an old copy of its state",
        node, DescribeFence(heard), DescribeFence(fence_));
  }
  const auto [row, is_new] =
      newer_.try_emplace(node, Newer{.heard = {}, .since = now, .last = now});
  row->second.heard = heard;
  row->second.last = now;
  return Fail(Code::kUnavailable,
              fmt::format("this coordinator ({}) is an older one than node {} has heard of ({})",
                          DescribeFence(fence_), node, DescribeFence(heard)));
}

void NodeService::NoteDenied(const std::string& node, const std::string& why) {
  const TimePoint now = Clock::now();
  std::erase_if(denied_, [now](const auto& row) { return now - row.second.last > kWordOfNode; });
  const auto [row, is_new] =
      denied_.try_emplace(node, Denied{.why = {}, .since = now, .last = now});
  row->second.last = now;
  if (std::exchange(row->second.why, why) == why) return;
  spdlog::error("node {} refuses what this coordinator asks: {}", node, why);
}

std::vector<proto::Alert> NodeService::Alerts(TimePoint now, std::int64_t now_unix_s) const {
  std::vector<proto::Alert> alerts;
  AddOutdated(now, now_unix_s, alerts);
  AddDenied(now, now_unix_s, alerts);
  for (proto::Alert& alert : doubled_.Alerts(now, now_unix_s)) alerts.push_back(std::move(alert));
  return alerts;
}

void NodeService::AddDenied(TimePoint now, std::int64_t now_unix_s,
                            std::vector<proto::Alert>& alerts) const {
  const auto [first, count, ago] = StillSaid(denied_, now);
  if (first == nullptr) return;
  proto::Alert alert;
  alert.set_name(std::string(AlertName(AlertKind::kCoordinatorRefused)));
  alert.set_since_unix_s(now_unix_s - ago.count());
  alert.set_message(fmt::format("{} of the nodes, {} first, refuse what this coordinator asks: {}",
                                count, first->first, first->second.why));
  alert.set_action(
      "where another coordinator of this cluster runs, or the state of this one is an old copy, "
      "stop it and see docs/DEPLOY.md, Backups; else look at its certificate");
  alerts.push_back(std::move(alert));
}

void NodeService::AddOutdated(TimePoint now, std::int64_t now_unix_s,
                              std::vector<proto::Alert>& alerts) const {
  if (!has_heard_of_newer_) return;
  const auto [first, count, ago] = StillSaid(newer_, now);
  proto::Alert alert;
  alert.set_name(std::string(AlertName(AlertKind::kCoordinatorOutdated)));
  if (first != nullptr) {
    alert.set_since_unix_s(now_unix_s - ago.count());
    alert.set_message(fmt::format(
        "{} of the nodes, {} first, do not follow this coordinator: it began with {}, "
        "and they have heard of {}",
        count, first->first, DescribeFence(fence_), DescribeFence(first->second.heard)));
  } else {
    // Who was told once speaks under its old claim until a restore, also while nobody objects.
    alert.set_message(
        fmt::format("nodes have heard of a newer coordinator, and do not follow this coordinator "
                    "wherever they know of that one: it keeps fencing epoch {} until a backup is "
                    "restored",
                    fence_.epoch));
  }
  alert.set_action(
      "stop this coordinator where another one of this cluster runs; where its state is an old "
      "copy, stop it and use `forebay restore` with a backup");
  alerts.push_back(std::move(alert));
}

void NodeService::NoteRefusal(const NodeInfo& node, std::uint64_t incarnation, const Error& why) {
  if (why.code == Code::kInvalid) {
    const std::optional<std::string> holder = membership_.HeldAt(node.id, incarnation);
    if (holder) doubled_.NoteRefused(node, incarnation, *holder, Clock::now());
  }
  if (refused_.size() >= kMaxRingNodes) refused_.clear();
  std::string& said = refused_[node.id];
  if (said == why.message) return;
  said = why.message;
  spdlog::warn("node {} at {} was refused: {}", node.id, node.address, why.message);
}

Task<Result<RpcReply>> NodeService::Heartbeat(RpcCall call) {
  proto::HeartbeatRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  if (request.node_id() != call.peer.id) {
    co_return Fail(Code::kDenied,
                   "node " + call.peer.id + " may not report for " + request.node_id());
  }
  Status believed = CheckFence(request.node_id(), FromProto(request.fence()));
  if (!believed) co_return Fail(believed.error());
  proto::HeartbeatReply reply;
  *reply.mutable_fence() = ToProto(fence_);
  const bool known =
      membership_.Heartbeat(request.node_id(), request.incarnation(), RoomOf(request));
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
