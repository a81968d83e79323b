#include "coordinator/member_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/nearest.h"

namespace forebay {
namespace {

/// A weight that changed by less moves nothing: file systems report a slightly different size after
/// each mount.
constexpr double kCapacityTolerance = 0.01;

constexpr std::size_t kMaxNodeIdBytes = 128;

/// More machines that were copied from one than anybody would have under one address.
constexpr std::size_t kMaxDisplaced = 16;

Status ValidateNode(const NodeInfo& info) {
  const bool id_is_good =
      !info.id.empty() && info.id.size() <= kMaxNodeIdBytes &&
      std::ranges::all_of(info.id, [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
  if (!id_is_good) {
    return Fail(Code::kInvalid, "a node id is 1 to 128 printable characters without '/'");
  }
  if (info.address.empty()) {
    return Fail(Code::kInvalid, fmt::format("node {} gave no address: set --advertise", info.id));
  }
  if (info.capacity_bytes == 0) {
    return Fail(Code::kInvalid,
                fmt::format("node {} has no capacity: give its cache directories room", info.id));
  }
  return {};
}

/// What an administrator is told who asks for a change that makes no sense.
constexpr std::string_view kNothingChanged = "nothing was changed";

bool WeightChanged(std::uint64_t before, std::uint64_t now) {
  const double a = static_cast<double>(before);
  const double b = static_cast<double>(now);
  return std::abs(a - b) > kCapacityTolerance * std::max(a, b);
}

/// What readers learn from the table: they must get a new one when it changes.
bool ReachedOtherwise(const NodeInfo& before, const NodeInfo& now) {
  return before.address != now.address || before.local_socket != now.local_socket ||
         before.host_id != now.host_id || before.zone != now.zone;
}

/// How a node gets an id that no other has: the certificate says it where there is one.
constexpr std::string_view kOwnId = "with `forebay join … --id`, or without certificates --node-id";

Error TwoAtOneAddress(const NodeInfo& node) {
  return Error{Code::kInvalid,
               fmt::format("two live processes are node {0} at {1}, as after a copy of a machine "
                           "that had joined: stop one of them, or give it an --advertise and an id "
                           "of its own ({2})",
                           node.id, node.address, kOwnId)};
}

}  // namespace

void MemberTable::Restore(std::vector<Member> members, TimePoint now) {
  for (Member& member : members) {
    member.heard = now;
    member.heard_since_start = false;
    std::string id = member.info.id;
    members_.insert_or_assign(std::move(id), std::move(member));
  }
}

Duration MemberTable::SilenceAllowed(const Member& member) const {
  return member.heard_since_start ? times_.suspect_after : times_.restart_grace;
}

std::optional<TimePoint> MemberTable::HolderHeard(const NodeInfo& info, std::uint64_t incarnation,
                                                  TimePoint now) const {
  const auto known = members_.find(info.id);
  if (known == members_.end()) return std::nullopt;
  const Member& holder = known->second;
  const bool other = holder.incarnation != incarnation && holder.info.address != info.address;
  const bool may_live = IsAlive(holder, now) || IsUnheard(holder, now);
  if (!may_live || !other) return std::nullopt;
  return holder.heard;
}

std::optional<std::string> MemberTable::HeldAt(const std::string& id, std::uint64_t incarnation,
                                               TimePoint now) const {
  const auto known = members_.find(id);
  if (known == members_.end() || known->second.incarnation == incarnation) return std::nullopt;
  if (!IsAlive(known->second, now)) return std::nullopt;
  return known->second.info.address;
}

bool MemberTable::IsAlive(const Member& member, TimePoint now) const {
  return member.in_ring() && member.heard_since_start && now - member.heard < times_.suspect_after;
}

bool MemberTable::IsUnheard(const Member& member, TimePoint now) const {
  return member.in_ring() && !member.heard_since_start && now - member.heard < times_.restart_grace;
}

Result<MemberTable::Registration> MemberTable::PlanRegistration(
    NodeInfo info, std::uint64_t incarnation, std::optional<std::uint64_t> tabled_capacity,
    TimePoint now) const {
  Status valid = ValidateNode(info);
  if (!valid) return Fail(valid.error());

  std::vector<std::uint64_t> displaced;
  bool new_table = !tabled_capacity || WeightChanged(*tabled_capacity, info.capacity_bytes);
  const auto known = members_.find(info.id);
  if (known != members_.end()) {
    const Member& old = known->second;
    if (HolderHeard(info, incarnation, now)) {
      return Fail(
          Code::kInvalid,
          fmt::format("node id {} is held by the live process at {}: stop one of the two, or "
                      "give it an id of its own ({})",
                      info.id, old.info.address, kOwnId));
    }
    displaced = old.displaced;
    if (std::ranges::find(displaced, incarnation) != displaced.end() && IsAlive(old, now))
      return Fail(TwoAtOneAddress(old.info));
    Status welcome = MayComeBack(old, incarnation);
    if (!welcome) return Fail(welcome.error());
    std::erase(displaced, incarnation);
    if (old.incarnation != incarnation) displaced.push_back(old.incarnation);
    if (displaced.size() > kMaxDisplaced) displaced.erase(displaced.begin());
    new_table = new_table || !old.in_ring() || ReachedOtherwise(old.info, info);
  }
  // A drain goes on over restarts of the node.
  const bool draining = known != members_.end() && known->second.info.state == NodeState::kDraining;
  info.state = draining ? NodeState::kDraining : NodeState::kUp;
  Registration plan;
  plan.member = Member{.info = std::move(info),
                       .incarnation = incarnation,
                       .displaced = std::move(displaced),
                       .heard = now,
                       .heard_since_start = true,
                       .out_unix_s = 0};
  plan.new_table = new_table;
  return plan;
}

/// Whether a process with this incarnation may register again.
Status MemberTable::MayComeBack(const Member& known, std::uint64_t incarnation) const {
  const std::string& id = known.info.id;
  switch (known.dismissal) {
    case Dismissal::kNone:
      return {};
    case Dismissal::kFenced:
      return Fail(Code::kDenied, fmt::format("node {0} is fenced: an administrator keeps it out of "
                                             "the cluster until `forebay node undrain {0}`",
                                             id));
    case Dismissal::kRemoved:
    case Dismissal::kDrained:
      break;
  }
  if (known.incarnation != incarnation) return {};
  return Fail(
      Code::kDenied,
      fmt::format("node {0} was {1} by an administrator: restart it to join again, or let "
                  "it in with `forebay node undrain {0}`",
                  id,
                  known.dismissal == Dismissal::kRemoved ? "removed from the cluster" : "drained"));
}

Result<Member> MemberTable::Find(const std::string& id) const {
  const auto known = members_.find(id);
  if (known != members_.end()) return known->second;
  std::vector<std::string> ids;
  ids.reserve(members_.size());
  for (const auto& [known_id, member] : members_) ids.push_back(known_id);
  const std::string near = Nearest(id, ids);
  return Fail(Code::kNotFound, fmt::format("there is no node '{}': {}; {}", id,
                                           near.empty() ? "`forebay nodes` shows all"
                                                        : "did you mean '" + near + "'?",
                                           kNothingChanged));
}

/// Ok: the others can do its work. kInvalid: no other node may own anything, or this one is up and
/// no other one is; `then` says what to do about it. kUnavailable: whether another one is up is not
/// known yet.
Status MemberTable::CheckDispensable(const Member& member, std::string_view then,
                                     TimePoint now) const {
  bool other_owns = false;
  bool other_is_up = false;
  bool other_unheard = false;
  for (const auto& [id, other] : members_) {
    if (id == member.info.id || other.info.state != NodeState::kUp) continue;
    const bool unheard = IsUnheard(other, now);
    other_owns = true;
    other_unheard = other_unheard || unheard;
    other_is_up = other_is_up || (!unheard && StateOf(other, now) == NodeState::kUp);
  }
  const bool serves = StateOf(member, now) != NodeState::kSuspect;
  if (other_owns && (other_is_up || !serves)) return {};
  if (other_unheard) return Fail(NotHeardYet("no node but " + member.info.id));
  return Fail(Code::kInvalid, fmt::format("node {} is the last one that can serve{}; {}",
                                          member.info.id, then, kNothingChanged));
}

Error MemberTable::NotHeardYet(const std::string& who) const {
  return Error{
      Code::kUnavailable,
      fmt::format("{} has been heard since this coordinator began, less than {} s ago: "
                  "ask again then; {}",
                  who, std::chrono::ceil<std::chrono::seconds>(times_.restart_grace).count(),
                  kNothingChanged)};
}

Result<std::optional<Member>> MemberTable::PlanDismissal(const std::string& id, Dismissal why,
                                                         TimePoint now,
                                                         std::int64_t now_unix_s) const {
  Result<Member> known = Find(id);
  if (!known) return Fail(known.error());
  Member member = std::move(*known);
  if (why == Dismissal::kDrained && member.info.state != NodeState::kDraining)
    return Fail(Code::kInvalid, fmt::format("node {} is not draining any more", id));
  // A drained node is as good as removed.
  const bool done = member.dismissal == why ||
                    (why == Dismissal::kRemoved && member.dismissal == Dismissal::kDrained);
  if (done) return std::optional<Member>();
  if (member.in_ring()) {
    Status dispensable = CheckDispensable(
        member, ": start another node first, or stop this one to stop the cache", now);
    // Those that have just copied what a node held need not have been heard.
    const bool drained = why == Dismissal::kDrained;
    if (!dispensable && !(drained && dispensable.error().code == Code::kUnavailable))
      return Fail(dispensable.error());
  }
  if (member.in_ring()) member.out_unix_s = now_unix_s;
  member.info.state = NodeState::kOut;
  member.dismissal = why;
  return std::optional<Member>(std::move(member));
}

Result<std::optional<Member>> MemberTable::PlanDrain(const std::string& id, TimePoint now) const {
  Result<Member> known = Find(id);
  if (!known) return Fail(known.error());
  Member member = std::move(*known);
  if (!member.in_ring()) {
    return Fail(Code::kInvalid,
                fmt::format("node {} is out of the cluster already: its machine may be stopped; {}",
                            id, kNothingChanged));
  }
  if (member.info.state == NodeState::kDraining) return std::optional<Member>();
  if (StateOf(member, now) == NodeState::kSuspect) {
    const auto silent = std::chrono::duration_cast<std::chrono::seconds>(now - member.heard);
    return Fail(Code::kInvalid,
                fmt::format("node {0} has not been heard for {1} s, and what is down cannot be "
                            "drained: start it, or take it out with `forebay node remove {0}`; {2}",
                            id, silent.count(), kNothingChanged));
  }
  if (IsUnheard(member, now)) return Fail(NotHeardYet("nothing of node " + id));
  Status dispensable =
      CheckDispensable(member, ", and its blocks could go nowhere: start another node first", now);
  if (!dispensable) return Fail(dispensable.error());
  member.info.state = NodeState::kDraining;
  return std::optional<Member>(std::move(member));
}

Result<std::optional<Member>> MemberTable::PlanReturn(const std::string& id) const {
  Result<Member> known = Find(id);
  if (!known) return Fail(known.error());
  Member member = std::move(*known);
  if (member.info.state == NodeState::kDraining) {
    member.info.state = NodeState::kUp;
    return std::optional<Member>(std::move(member));
  }
  // Nobody keeps it out: it joins by itself, and may be about to.
  if (member.in_ring() || member.dismissal == Dismissal::kNone) return std::optional<Member>();
  member.dismissal = Dismissal::kNone;
  return std::optional<Member>(std::move(member));
}

std::vector<Member> MemberTable::PlanOuts(TimePoint now, std::int64_t now_unix_s) const {
  const bool somebody_is_up = std::ranges::any_of(members_, [&](const auto& entry) {
    return entry.second.heard_since_start && StateOf(entry.second, now) == NodeState::kUp;
  });
  std::vector<Member> outs;
  if (!somebody_is_up) return outs;
  for (const auto& [id, member] : members_) {
    if (!member.in_ring() || now - member.heard < times_.out_after) continue;
    Member out = member;
    out.info.state = NodeState::kOut;
    out.out_unix_s = now_unix_s;
    outs.push_back(std::move(out));
  }
  return outs;
}

std::vector<std::string> MemberTable::PlanForgotten(TimePoint now, std::int64_t now_unix_s) const {
  std::vector<std::string> forgotten;
  for (const auto& [id, member] : members_) {
    if (member.in_ring() || member.dismissal == Dismissal::kFenced) continue;
    const bool asks = member.dismissal != Dismissal::kNone && now - member.heard < times_.out_after;
    if (asks) continue;
    if (now_unix_s - member.out_unix_s >= times_.forget_out_after.count()) forgotten.push_back(id);
  }
  return forgotten;
}

void MemberTable::Commit(const Member& member) {
  members_.insert_or_assign(member.info.id, member);
}

void MemberTable::Forget(const std::string& id) { members_.erase(id); }

bool MemberTable::Heartbeat(const std::string& id, std::uint64_t incarnation, TimePoint now) {
  const auto known = members_.find(id);
  if (known == members_.end()) return false;
  Member& member = known->second;
  if (member.incarnation != incarnation) return false;
  // Also of one that is out: it is not forgotten as long as it asks, or it would come back as new.
  member.heard = now;
  if (!member.in_ring()) return false;
  member.heard_since_start = true;
  return true;
}

void MemberTable::NoteRoom(const std::string& id, std::uint64_t bytes, TimePoint now) {
  const auto known = members_.find(id);
  if (known == members_.end()) return;
  Member& member = known->second;
  bytes = std::max<std::uint64_t>(bytes, 1);
  if (!WeightChanged(member.info.capacity_bytes, bytes)) {
    member.room_bytes = 0;
    return;
  }
  // The wait begins anew with each change: what comes and goes moves nothing.
  const bool settles = member.room_bytes != 0 && !WeightChanged(member.room_bytes, bytes);
  if (!settles) member.room_since = now;
  member.room_bytes = bytes;
}

std::vector<Member> MemberTable::PlanWeights(TimePoint now) const {
  std::vector<Member> changed;
  for (const auto& [id, member] : members_) {
    if (member.room_bytes == 0 || StateOf(member, now) != NodeState::kUp) continue;
    const bool less = member.room_bytes < member.info.capacity_bytes;
    if (now - member.room_since < (less ? times_.less_room_after : times_.more_room_after))
      continue;
    Member& weighed = changed.emplace_back(member);
    weighed.info.capacity_bytes = std::exchange(weighed.room_bytes, 0);
  }
  return changed;
}

NodeState MemberTable::StateOf(const Member& member, TimePoint now) const {
  if (!member.in_ring()) return NodeState::kOut;
  return now - member.heard >= SilenceAllowed(member) ? NodeState::kSuspect : member.info.state;
}

std::vector<NodeInfo> MemberTable::Nodes(TimePoint now, bool with_out) const {
  std::vector<NodeInfo> nodes;
  nodes.reserve(members_.size());
  for (const auto& [id, member] : members_) {
    if (!with_out && !member.in_ring()) continue;
    nodes.push_back(member.info);
    nodes.back().state = StateOf(member, now);
  }
  return nodes;
}

double MemberTable::CapacityShare(const std::string& id, TimePoint now) const {
  double own = 0;
  double all = 0;
  for (const auto& [name, member] : members_) {
    const auto capacity = static_cast<double>(member.info.capacity_bytes);
    if (name == id) own = capacity;
    if (name == id || StateOf(member, now) == NodeState::kUp) all += capacity;
  }
  return all > 0 ? own / all : 1.0;
}

}  // namespace forebay
