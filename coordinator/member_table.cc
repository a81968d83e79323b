#include "coordinator/member_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace forebay {
namespace {

/// A weight that changed by less moves nothing: file systems report a slightly different size after
/// each mount.
constexpr double kCapacityTolerance = 0.01;

constexpr std::size_t kMaxNodeIdBytes = 128;

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
  const bool alive =
      holder.in_ring() && holder.heard_since_start && now - holder.heard < times_.suspect_after;
  const bool other = holder.incarnation != incarnation && holder.info.address != info.address;
  if (!alive || !other) return std::nullopt;
  return holder.heard;
}

Result<MemberTable::Registration> MemberTable::PlanRegistration(
    NodeInfo info, std::uint64_t incarnation, std::optional<std::uint64_t> tabled_capacity,
    TimePoint now) const {
  Status valid = ValidateNode(info);
  if (!valid) return Fail(valid.error());

  bool new_table = !tabled_capacity || WeightChanged(*tabled_capacity, info.capacity_bytes);
  const auto known = members_.find(info.id);
  if (known != members_.end()) {
    const Member& old = known->second;
    if (HolderHeard(info, incarnation, now)) {
      return Fail(Code::kInvalid,
                  fmt::format("node id {} is held by the live process at {}: give this one another "
                              "--node-id, or stop that one",
                              info.id, old.info.address));
    }
    new_table = new_table || !old.in_ring() || ReachedOtherwise(old.info, info);
  }
  info.state = NodeState::kUp;
  Registration plan;
  plan.member = Member{.info = std::move(info),
                       .incarnation = incarnation,
                       .heard = now,
                       .heard_since_start = true,
                       .out_unix_s = 0};
  plan.new_table = new_table;
  return plan;
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

std::vector<std::string> MemberTable::PlanForgotten(std::int64_t now_unix_s) const {
  std::vector<std::string> forgotten;
  for (const auto& [id, member] : members_) {
    if (member.in_ring()) continue;
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
  if (member.incarnation != incarnation || !member.in_ring()) return false;
  member.heard = now;
  member.heard_since_start = true;
  return true;
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
