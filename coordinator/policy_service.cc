#include "coordinator/policy_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/units.h"
#include "common/base/wall_clock.h"
#include "common/wire/messages.h"
#include "coordinator/block_walk.h"
#include "coordinator/link_options.h"
#include "coordinator/pin_room.h"
#include "coordinator/target.h"

namespace forebay {
namespace {

/// A node learns of a decision with its next heartbeat and says so with the one after.
constexpr std::chrono::seconds kToldWithin{4};

}  // namespace

std::vector<MethodEntry> PolicyService::Methods() {
  std::vector<MethodEntry> methods;
  const auto add = [&](Method method, auto handler) {
    methods.push_back(
        {method, [this, handler](RpcCall call) { return (this->*handler)(std::move(call)); }});
  };
  add(Method::kSetFillLimits, &PolicyService::SetFillLimits);
  add(Method::kPin, &PolicyService::Pin);
  add(Method::kUnpin, &PolicyService::Unpin);
  add(Method::kListPins, &PolicyService::ListPins);
  add(Method::kSetQuota, &PolicyService::SetQuota);
  add(Method::kSetPriority, &PolicyService::SetPriority);
  add(Method::kSetReplicas, &PolicyService::SetReplicas);
  return methods;
}

Task<Result<RpcReply>> PolicyService::SetFillLimits(RpcCall call) {
  proto::SetFillLimitsRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto set = [this, request] { return parts_.budget.Set(request, UnixSeconds()); };
  Result<bool> changed = co_await parts_.offload.Run(std::move(set));
  if (!changed) co_return Fail(changed.error());
  const proto::FillLimitsRecord record = parts_.budget.record();
  const Decisions decided{.fill_limits_version = record.version()};
  std::vector<std::string> not_told = co_await parts_.stats.WaitUntilTold(
      parts_.membership.Members(), decided, call.deadline.AtMost(kToldWithin));
  proto::SetFillLimitsReply reply;
  *reply.mutable_limits() = record.limits();
  reply.set_changed(*changed);
  for (std::string& node : not_told) reply.add_not_told(std::move(node));
  co_return ReplyWith(reply);
}

// --- Pins

Status PolicyService::CheckLease(const proto::PinRequest& request) const {
  if (request.until_unix_s() != 0 && request.until_unix_s() <= UnixSeconds())
    return Fail(Code::kInvalid, "the pin would be over before it begins; nothing was pinned");
  if (request.job().empty()) return {};
  const std::optional<Duration> idle = parts_.stats.JobIdle(request.job());
  if (idle && *idle < kJobEnds) return {};
  return Fail(
      Code::kNotFound,
      fmt::format("no job '{}' has read anything in the last {} minutes; nothing was pinned",
                  request.job(), kJobEnds.count()));
}

std::uint64_t PolicyService::PinnedBytesOf(const Uuid& link) const {
  std::vector<proto::PinRecord> pins = parts_.pins.All();
  std::erase_if(pins, [&](const auto& pin) { return UuidFromBytes(pin.link()) != link; });
  return PinnedBytes(pins);
}

/// A walk over all that is pinned: what a block takes on disk, and where, goes by its size and id.
Task<Status> PolicyService::CheckRoom(LocatedTargets wanted_targets,
                                      std::vector<proto::PinRecord> wanted) {
  std::vector<proto::PinRecord> pins = parts_.pins.All();
  for (const proto::PinRecord& each : wanted) {
    std::erase_if(pins, [&](const proto::PinRecord& pin) {
      return pin.link() == each.link() && pin.path() == each.path();
    });
    pins.push_back(each);
  }
  for (const LocatedTarget& target : wanted_targets.all) {
    Status in_quota = CheckQuota(target.link, pins);
    if (!in_quota) co_return in_quota;
  }
  std::vector<PinnedTarget> targets;
  for (const proto::PinRecord& pin : Uncovered(pins)) {
    const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(pin.link()));
    if (!link || !link->generation) continue;
    const auto generation = parts_.index.Find(link->spec.id, link->generation->generation());
    if (!generation) continue;
    const std::optional<SnapshotRow> row = generation->snapshot()->Resolve(pin.path());
    if (row) targets.push_back({generation->snapshot(), *row, link->spec.replicas});
  }
  auto place = [targets = std::move(targets), ring = parts_.membership.Table()] {
    return PinnedDiskBytes(targets, *ring);
  };
  using Placed = Result<std::map<std::string, std::uint64_t>>;
  const Placed placed = co_await parts_.offload.Run(std::move(place));
  if (!placed) co_return Fail(placed.error());
  std::vector<NodeSpace> nodes;
  for (const MemberView& member : parts_.membership.Members()) {
    if (member.info.state == NodeState::kOut || member.drains) continue;
    nodes.push_back({member.info.id, parts_.stats.NodeUsable(member.info)});
  }
  co_return CheckPinsFit(*placed, nodes);
}

Status PolicyService::CheckQuota(const LinkSpec& link, std::vector<proto::PinRecord> pins) const {
  std::erase_if(pins, [&](const auto& pin) { return UuidFromBytes(pin.link()) != link.id; });
  const std::uint64_t of_link = PinnedBytes(pins);
  if (link.quota_bytes == 0 || of_link <= link.quota_bytes) return {};
  return Fail(Code::kInvalid,
              fmt::format("with it {} of link '{}' would be pinned, and its quota is {}; nothing "
                          "was pinned",
                          HumanBytes(of_link), link.name, HumanBytes(link.quota_bytes)));
}

Task<std::vector<std::string>> PolicyService::TellLinks(Deadline deadline) {
  const Decisions decided{.links_version = parts_.links.version()};
  std::vector<std::string> not_told = co_await parts_.stats.WaitUntilTold(
      parts_.membership.Members(), decided, deadline.AtMost(kToldWithin));
  co_return not_told;
}

Task<std::vector<std::string>> PolicyService::TellPins(std::vector<Uuid> links, Deadline deadline) {
  const Roster roster = parts_.membership.CurrentRoster();
  std::vector<std::string> not_told = co_await TellLinks(deadline);
  for (const Uuid& link : links) {
    const std::vector<std::string> failed = co_await parts_.keeper.Tell(link, roster.up, deadline);
    for (const std::string& node : failed) {
      if (std::ranges::find(not_told, node) == not_told.end()) not_told.push_back(node);
    }
  }
  co_return not_told;
}

Task<Result<proto::PinState>> PolicyService::StateOf(proto::PinRecord pin, Deadline deadline) {
  proto::PinState state;
  const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(pin.link()));
  if (!link) co_return Fail(Code::kNotFound, "the link was removed");
  state.set_link(link->spec.name);
  state.set_target(pin.path().empty() ? link->spec.name : link->spec.name + "/" + pin.path());
  state.set_since_unix_s(pin.since_unix_s());
  state.set_until_unix_s(pin.until_unix_s());
  state.set_job(pin.job());
  state.set_objects(pin.objects());
  state.set_bytes(pin.bytes());
  const Result<LocatedTarget> target = LocateTarget(state.target(), parts_.links, parts_.index);
  // While the link is listed, or the path is gone in this generation, nothing of it is known.
  if (!target) co_return state;
  std::vector<SnapshotRow> roots = {target->row};
  Result<CacheCount> count = co_await parts_.census.Count(
      target->snapshot, std::move(roots), parts_.membership.CurrentRoster(), deadline);
  if (!count) co_return Fail(count.error());
  const CacheTally& tally = count->tallies.front();
  state.set_objects(tally.objects);
  state.set_bytes(tally.bytes);
  state.set_cached_bytes(tally.cached_bytes);
  state.set_unknown_bytes(tally.unknown_bytes);
  co_return state;
}

Task<Result<proto::PinRecord>> PolicyService::MeasuredPin(LocatedTarget target,
                                                          proto::PinRequest request) {
  auto measure = [snapshot = target.snapshot, path = target.path] {
    return MeasureTarget(snapshot, path);
  };
  Result<CacheTally> tally = co_await parts_.offload.Run(std::move(measure));
  if (!tally) co_return Fail(tally.error());
  proto::PinRecord pin;
  pin.set_link(BytesOf(target.link.id));
  pin.set_path(target.path);
  pin.set_folder(target.row.is_directory());
  pin.set_since_unix_s(UnixSeconds());
  pin.set_until_unix_s(request.until_unix_s());
  pin.set_job(request.job());
  pin.set_objects(tally->objects);
  pin.set_bytes(tally->bytes);
  co_return pin;
}

/// Of a set one pin for each part, shown as one.
Task<Result<proto::PinState>> PolicyService::SumOfPins(LocatedTargets targets,
                                                       std::vector<proto::PinRecord> wanted,
                                                       Deadline deadline) {
  proto::PinState sum;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const LocatedTarget& target = targets.all[i];
    const proto::PinRecord kept = parts_.pins.Find(target.link.id, target.path).value_or(wanted[i]);
    Result<proto::PinState> state = co_await StateOf(kept, deadline);
    if (!state || !targets.is_set) co_return state;
    sum.set_objects(sum.objects() + state->objects());
    sum.set_bytes(sum.bytes() + state->bytes());
    sum.set_cached_bytes(sum.cached_bytes() + state->cached_bytes());
    sum.set_unknown_bytes(sum.unknown_bytes() + state->unknown_bytes());
    sum.set_since_unix_s(std::max(sum.since_unix_s(), state->since_unix_s()));
    sum.set_until_unix_s(state->until_unix_s());
    sum.set_job(state->job());
  }
  sum.set_target(targets.name);
  sum.set_link(targets.name);
  co_return sum;
}

Task<Result<RpcReply>> PolicyService::Pin(RpcCall call) {
  proto::PinRequest request;
  Status good = ParseMessage(call.message, request);
  if (good) good = CheckLease(request);
  if (!good) co_return Fail(good.error());
  Result<LocatedTargets> targets =
      LocateTargets(request.target().text(), parts_.links, parts_.index);
  if (!targets) co_return Fail(targets.error());
  std::vector<proto::PinRecord> pins;
  std::vector<Uuid> links;
  for (const LocatedTarget& target : targets->all) {
    // Nodes keep pins by link: one that shares the block would not know of it.
    if (!target.link.sharing_domain.empty()) {
      co_return Fail(Code::kInvalid,
                     fmt::format("link '{}' shares blocks (sharing domain '{}'), and what is "
                                 "shared cannot be pinned; nothing was pinned",
                                 target.link.name, target.link.sharing_domain));
    }
    Result<proto::PinRecord> pin = co_await MeasuredPin(target, request);
    if (!pin) co_return Fail(pin.error());
    pins.push_back(std::move(*pin));
    links.push_back(target.link.id);
  }
  good = co_await CheckRoom(*targets, pins);
  if (!good) co_return Fail(good.error());
  proto::PinReply reply;
  for (const proto::PinRecord& pin : pins) {
    auto put = [this, pin] { return parts_.pins.Put(pin); };
    Result<bool> changed = co_await parts_.offload.Run(std::move(put));
    if (!changed) co_return Fail(changed.error());
    reply.set_changed(reply.changed() || *changed);
  }
  std::vector<std::string> not_told = co_await TellPins(std::move(links), call.deadline);
  for (std::string& node : not_told) reply.add_not_told(std::move(node));
  Result<proto::PinState> state =
      co_await SumOfPins(std::move(*targets), std::move(pins), call.deadline);
  if (!state) co_return Fail(state.error());
  *reply.mutable_pin() = std::move(*state);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> PolicyService::Unpin(RpcCall call) {
  proto::UnpinRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  std::vector<ResolvedTarget> targets;
  for (LinkSpec& part : PartsNamed(request.target().text(), parts_.links.Specs()))
    targets.push_back({.link = std::move(part), .path = ""});
  if (targets.empty()) {
    // By name alone: what is pinned may be gone from the newest generation.
    Result<ResolvedTarget> target = ResolveTarget(request.target().text(), parts_.links.Specs());
    if (!target) co_return Fail(target.error());
    targets.push_back(std::move(*target));
  }
  proto::UnpinReply reply;
  std::vector<Uuid> links;
  for (const ResolvedTarget& target : targets) {
    auto remove = [this, link = target.link.id, path = target.path] {
      return parts_.pins.Remove(link, path);
    };
    Result<bool> removed = co_await parts_.offload.Run(std::move(remove));
    if (!removed) co_return Fail(removed.error());
    reply.set_removed(reply.removed() || *removed);
    links.push_back(target.link.id);
  }
  if (reply.removed()) {
    std::vector<std::string> not_told = co_await TellPins(std::move(links), call.deadline);
    for (std::string& node : not_told) reply.add_not_told(std::move(node));
  }
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> PolicyService::ListPins(RpcCall call) {
  proto::ListPinsReply reply;
  for (const proto::PinRecord& pin : parts_.pins.All()) {
    Result<proto::PinState> state = co_await StateOf(pin, call.deadline);
    if (state) *reply.add_pins() = std::move(*state);
  }
  co_return ReplyWith(reply);
}

// --- Quotas and priorities

/// Persists what `change` makes of the link.
Task<Status> PolicyService::Decide(Uuid id, LinkChange change) {
  auto decide = [this, id, change = std::move(change)] {
    return parts_.links.Decide(id, change, {});
  };
  Status decided = co_await parts_.offload.Run(std::move(decide));
  co_return decided;
}

Task<Result<RpcReply>> PolicyService::SetQuota(RpcCall call) {
  proto::SetQuotaRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  Result<Link> link = parts_.links.Find(request.name());
  if (!link) co_return Fail(link.error());
  const Uuid id = link->spec.id;
  const std::uint64_t quota = request.quota_bytes();
  good = CheckLinkQuota(quota, link->spec.block_bytes);
  if (!good) co_return Fail(good.error());
  const std::uint64_t pinned = PinnedBytesOf(id);
  if (quota != 0 && pinned > quota) {
    co_return Fail(Code::kInvalid,
                   fmt::format("{} of link '{}' is pinned, more than a quota of {}; nothing was "
                               "changed",
                               HumanBytes(pinned), request.name(), HumanBytes(quota)));
  }
  proto::SetQuotaReply reply;
  reply.set_quota_bytes(quota);
  reply.set_changed(link->spec.quota_bytes != quota);
  if (reply.changed()) {
    auto change = [quota](LinkSpec& spec, std::uint64_t) { spec.quota_bytes = quota; };
    Status decided = co_await Decide(id, std::move(change));
    if (!decided) co_return Fail(decided.error());
  }
  std::vector<std::string> not_told = co_await TellLinks(call.deadline);
  for (std::string& node : not_told) reply.add_not_told(std::move(node));
  co_return ReplyWith(reply);
}

Result<std::vector<LinkSpec>> PolicyService::Named(const std::string& name) const {
  std::vector<LinkSpec> specs;
  for (Link& part : parts_.links.PartsOf(name)) specs.push_back(std::move(part.spec));
  if (!specs.empty()) return specs;
  Result<Link> link = parts_.links.Find(name);
  if (!link) return Fail(link.error());
  specs.push_back(std::move(link->spec));
  return specs;
}

Task<Result<RpcReply>> PolicyService::SetPriority(RpcCall call) {
  proto::SetPriorityRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  const Result<std::vector<LinkSpec>> links = Named(request.name());
  if (!links) co_return Fail(links.error());
  const LinkPriority priority = LinkPriorityOf(request.priority());
  proto::SetPriorityReply reply;
  for (const LinkSpec& link : *links) {
    if (link.priority == priority) continue;
    auto change = [priority](LinkSpec& spec, std::uint64_t) { spec.priority = priority; };
    Status decided = co_await Decide(link.id, std::move(change));
    if (!decided) co_return Fail(decided.error());
    reply.set_changed(true);
  }
  std::vector<std::string> not_told = co_await TellLinks(call.deadline);
  for (std::string& node : not_told) reply.add_not_told(std::move(node));
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> PolicyService::SetReplicas(RpcCall call) {
  proto::SetReplicasRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  const Result<std::uint32_t> replicas = ReplicasOf(request.replicas());
  if (!replicas) co_return Fail(replicas.error());
  const Result<std::vector<LinkSpec>> links = Named(request.name());
  if (!links) co_return Fail(links.error());
  proto::SetReplicasReply reply;
  reply.set_replicas(*replicas);
  for (const LinkSpec& link : *links) {
    if (link.replicas == *replicas) continue;
    auto change = [copies = *replicas](LinkSpec& spec, std::uint64_t) { spec.replicas = copies; };
    Status decided = co_await Decide(link.id, std::move(change));
    if (!decided) co_return Fail(decided.error());
    reply.set_changed(true);
  }
  std::vector<std::string> not_told = co_await TellLinks(call.deadline);
  for (std::string& node : not_told) reply.add_not_told(std::move(node));
  co_return ReplyWith(reply);
}

}  // namespace forebay
