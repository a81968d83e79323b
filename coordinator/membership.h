#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/membership.h"
#include "common/ring/ring.h"
#include "coordinator/member_table.h"
#include "coordinator/state_store.h"

namespace forebay {

/// One node, for reports.
struct MemberView {
  NodeInfo info;  ///< With its state of now.
  std::uint64_t incarnation = 0;
  Duration silence{};           ///< Since its last heartbeat (or the coordinator's start).
  std::int64_t out_unix_s = 0;  ///< When it went out; 0 = in the ring.
  Dismissal dismissal = Dismissal::kNone;
  bool drains = false;   ///< It owns nothing and is to go, silent or not.
  bool revoked = false;  ///< Its certificate is; ClusterMembers knows nothing of that.
};

/// Whom to ask what is cached, and who cannot be asked.
struct Roster {
  std::vector<NodeInfo> up;
  std::vector<NodeInfo> absent;  ///< In the ring, and silent.
  std::shared_ptr<const RingTable> ring = std::make_shared<RingTable>();
};

/// The members and the ring table in force. Every change is persisted before anybody sees it: the
/// epoch only grows, also over restarts. Thread-safe; heartbeats never wait for a disk.
class ClusterMembers {
 public:
  /// `store` and `offload` outlive it; `fence` is the claim that writes carry.
  ClusterMembers(StateStore& store, std::uint64_t fence, Offload& offload,
                 MembershipTimes times = {});

  /// Takes the persisted members and table into force. Blocks; before anything serves.
  Status Load();

  /// A process asks to be a node. Success means: it is a member, and epoch() and the table show it.
  /// kInvalid: another live process holds the id, or the node's own words make no sense. Where the
  /// holder may have just died, the answer waits until it is heard again or has been silent for
  /// MembershipTimes::suspect_after.
  Task<Status> Register(NodeInfo info, std::uint64_t incarnation);
  /// As MemberTable::HeldAt.
  std::optional<std::string> HeldAt(const std::string& id, std::uint64_t incarnation) const;

  /// False: the caller must register again. `room_bytes` is what its disks in service hold; nothing
  /// when it does not say. Where that stays another weight than the table has, Tick makes a new
  /// one.
  bool Heartbeat(const std::string& id, std::uint64_t incarnation,
                 std::optional<std::uint64_t> room_bytes);

  /// What an administrator decided: MemberTable::PlanDismissal, PlanDrain or PlanReturn. True: it
  /// is persisted, together with `also`, and in force, with a new table where the ring changes.
  /// False: it was so already, and `also` was not written.
  using Plan = std::function<Result<std::optional<Member>>(const MemberTable& members,
                                                           TimePoint now, std::int64_t unix_s)>;
  Task<Result<bool>> Change(Plan plan, StateBatch also);

  /// Takes nodes out that have been silent for too long, and gives those another share of the ring
  /// whose disks have had another room for long enough. Called once a second.
  Task<Status> Tick();

  /// The table in force.
  std::shared_ptr<const RingTable> Table() const;
  std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  /// The serialised table with the members' states of now.
  std::shared_ptr<const Buffer> SerializedTable();
  /// Members in any state, by id.
  std::vector<MemberView> Members() const;
  /// As MemberTable::CapacityShare.
  double CapacityShare(const std::string& id) const;
  /// The nodes that are up: those that admin verbs ask.
  std::vector<NodeInfo> UpNodes() const;
  Roster CurrentRoster() const;

 private:
  bool HolderIsInDoubt(const NodeInfo& info, std::uint64_t incarnation, TimePoint asked) const;
  Status RegisterNow(const NodeInfo& info, std::uint64_t incarnation);
  Result<bool> ChangeNow(const Plan& plan, StateBatch also);
  Status TickNow();
  std::vector<NodeInfo> NodesWith(const std::vector<Member>& changed) const;
  Status Persist(const std::vector<Member>& changed, const std::vector<std::string>& forgotten,
                 std::shared_ptr<const RingTable> next, StateBatch batch = {});

  StateStore& store_;
  const std::uint64_t fence_;
  Offload& offload_;

  std::mutex change_mutex_;   // held by Offload threads over plan, write and commit
  mutable std::mutex mutex_;  // guards what follows; never held over I/O
  MemberTable members_;
  std::shared_ptr<const RingTable> table_ = std::make_shared<RingTable>();
  std::atomic<std::uint64_t> epoch_{0};
  // The last answer of SerializedTable and what it was made of.
  std::shared_ptr<const Buffer> serialized_;
  std::vector<NodeInfo> serialized_nodes_;
  std::uint64_t serialized_epoch_ = 0;
};

}  // namespace forebay
