#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/model/membership.h"

namespace forebay {

/// The clocks of membership (DESIGN 6.10).
struct MembershipTimes {
  /// Silent for so long: suspect. Readers skip it, the table stays.
  Duration suspect_after = kSilence;
  /// Silent for so long: out, and a new table.
  Duration out_after = std::chrono::minutes(10);
  /// A node whose disks have had less room for so long gets a smaller share of the ring. Its lost
  /// disk's blocks are fetched anew each time that they are read, so not much longer than a disk
  /// needs that comes back by itself …
  Duration less_room_after = std::chrono::minutes(1);
  /// … and one whose disks have had more for so long a larger one: a disk that comes and goes takes
  /// part when it stays.
  Duration more_room_after = std::chrono::minutes(5);
  /// After a start of the coordinator nobody has been heard yet: members get this long before they
  /// are suspect. Covers their back-off while nobody listened.
  Duration restart_grace = std::chrono::seconds(10);
  /// A node that is out is shown for so long, then forgotten: as long as the ring remembers former
  /// owners.
  std::chrono::seconds forget_out_after = std::chrono::hours(24);
  /// Who has been refused for so long because of another live process of its id is a second node:
  /// one that moves or is started again waits for the process before it, which has kDrainTime to
  /// stop and is then silent for suspect_after …
  Duration doubled_after = std::chrono::seconds(15);
  /// … until it has not asked for so long. It asks each second, and may wait for an answer.
  Duration doubled_for = std::chrono::seconds(30);
};

/// One node as the coordinator knows it.
struct Member {
  /// `info.state` is kUp, kDraining or kOut; MemberTable::StateOf adds what time says.
  NodeInfo info;
  std::uint64_t incarnation = 0;  ///< Random per process.
  /// Of processes that this one was taken for the restart of, the latest ones: none of them comes
  /// back while it lives, unless they are several at once.
  std::vector<std::uint64_t> displaced = {};
  TimePoint heard;  ///< Last sign of life, or the coordinator's start.
  bool heard_since_start = false;
  std::int64_t out_unix_s = 0;  ///< When it went out; 0 = in the ring.
  Dismissal dismissal = Dismissal::kNone;
  /// What its disks in service hold now, where that is another weight than `info` has, and since
  /// when it is that; 0 = it is not.
  std::uint64_t room_bytes = 0;
  TimePoint room_since = {};

  bool in_ring() const { return info.state != NodeState::kOut; }
};

/// Who is in the cluster: the rules of joining, restarting, falling silent and leaving. Pure: no
/// clock, no I/O; every call gets the time. Changes that must be persisted first come as plans that
/// Commit applies. Not thread-safe.
class MemberTable {
 public:
  explicit MemberTable(MembershipTimes times = {}) : times_(times) {}

  /// Takes what was persisted, at the coordinator's start.
  void Restore(std::vector<Member> members, TimePoint now);

  /// When the live process that holds `info.id` was last heard; nothing when the caller may have
  /// the id at once. One that nobody has heard since the start counts as live for the grace.
  std::optional<TimePoint> HolderHeard(const NodeInfo& info, std::uint64_t incarnation,
                                       TimePoint now) const;
  /// Where the live process is that holds `id`; nothing when there is none, or it is this one.
  std::optional<std::string> HeldAt(const std::string& id, std::uint64_t incarnation,
                                    TimePoint now) const;

  struct Registration {
    Member member;           ///< To be persisted and committed.
    bool new_table = false;  ///< The ring needs a new table: a join, a changed weight or address.
  };
  /// A process asks to be node `info.id`. Same id and another incarnation is a restart when the old
  /// process has been silent or had the same address; otherwise kInvalid: two live processes. So
  /// they are, at one address too, when one asks again whose place a live one has taken.
  /// `tabled_capacity` is the node's weight in the current table (nothing = not in it).
  Result<Registration> PlanRegistration(NodeInfo info, std::uint64_t incarnation,
                                        std::optional<std::uint64_t> tabled_capacity,
                                        TimePoint now) const;

  // What an administrator decides. Each answers the member as it is to be persisted and committed;
  // nothing when it is so already. kNotFound: there is no such node. kInvalid: the message says
  // what stands against it. kUnavailable: the coordinator began a moment ago, and who is up is not
  // known yet.

  /// Out at once; the last node that others could be served by stays. kDrained only takes a node
  /// that is draining.
  Result<std::optional<Member>> PlanDismissal(const std::string& id, Dismissal why, TimePoint now,
                                              std::int64_t now_unix_s) const;
  /// Still a member, and owner of nothing. Not of a node that is silent or out, nor of the last.
  Result<std::optional<Member>> PlanDrain(const std::string& id, TimePoint now) const;
  /// Ends a drain, lifts a fence, lets the process of a removed node come back. Nothing for a node
  /// that is out because it is silent: it comes back by itself.
  Result<std::optional<Member>> PlanReturn(const std::string& id) const;

  /// Members that have been silent for out_after, with state kOut. Empty while nobody at all is up:
  /// then it is more likely the coordinator that is cut off, and an empty ring would help nobody.
  std::vector<Member> PlanOuts(TimePoint now, std::int64_t now_unix_s) const;
  /// Members whose room has been another for long enough (MembershipTimes), with it as their
  /// weight.
  std::vector<Member> PlanWeights(TimePoint now) const;
  /// Ids of nodes that have been out for forget_out_after; never a fenced one, nor one whose
  /// dismissed process still asks to come back.
  std::vector<std::string> PlanForgotten(TimePoint now, std::int64_t now_unix_s) const;

  void Commit(const Member& member);
  void Forget(const std::string& id);

  /// False: this incarnation is not a member and must register (again).
  bool Heartbeat(const std::string& id, std::uint64_t incarnation, TimePoint now);

  /// A node that is a member said what its disks in service hold. Less than a hundredth up or down
  /// is nothing; none at all counts as 1 byte, so that whoever has room owns all, and a cluster in
  /// which nobody has is still one.
  void NoteRoom(const std::string& id, std::uint64_t bytes, TimePoint now);

  NodeState StateOf(const Member& member, TimePoint now) const;
  /// The node's part of the capacity of those that are up, itself among them.
  double CapacityShare(const std::string& id, TimePoint now) const;
  const std::map<std::string, Member>& members() const { return members_; }
  /// kNotFound says what to do.
  Result<Member> Find(const std::string& id) const;
  /// Every member with the state it has now; those that are out only when asked for.
  std::vector<NodeInfo> Nodes(TimePoint now, bool with_out) const;

 private:
  Status MayComeBack(const Member& known, std::uint64_t incarnation) const;
  Status CheckDispensable(const Member& member, std::string_view then, TimePoint now) const;
  Error NotHeardYet(const std::string& who) const;
  bool IsAlive(const Member& member, TimePoint now) const;
  /// The coordinator began a moment ago, and nothing says whether it lives.
  bool IsUnheard(const Member& member, TimePoint now) const;
  Duration SilenceAllowed(const Member& member) const;

  MembershipTimes times_;
  std::map<std::string, Member> members_;
};

}  // namespace forebay
