#include "coordinator/membership.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "common/base/executors.h"
#include "common/base/wall_clock.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kTableKey = "ring/table";
constexpr const char* kMemberPrefix = "member/";
constexpr std::chrono::milliseconds kHolderLook{50};

std::string MemberKey(const std::string& id) { return kMemberPrefix + id; }

}  // namespace

ClusterMembers::ClusterMembers(StateStore& store, std::uint64_t fence, Offload& offload,
                               MembershipTimes times)
    : store_(store), fence_(fence), offload_(offload), members_(times) {}

Status ClusterMembers::Load() {
  Result<std::optional<std::string>> table = store_.Get(kTableKey);
  if (!table) return Fail(table.error());
  auto rows = store_.Scan(kMemberPrefix);
  if (!rows) return Fail(rows.error());

  std::vector<Member> members;
  for (const auto& [key, value] : *rows) {
    Result<Member> member = DecodeMember(value);
    if (!member) return Fail(member.error().Within("reading " + key));
    members.push_back(std::move(*member));
  }
  std::scoped_lock lock(mutex_);
  if (table->has_value()) {
    Result<RingTable> parsed = RingTable::Parse(**table);
    if (!parsed) return Fail(parsed.error().Within("reading the ring table"));
    table_ = std::make_shared<const RingTable>(std::move(*parsed));
    epoch_.store(table_->epoch(), std::memory_order_release);
  }
  members_.Restore(std::move(members), Clock::now());
  return {};
}

Task<Status> ClusterMembers::Register(NodeInfo info, std::uint64_t incarnation) {
  const TimePoint asked = Clock::now();
  while (HolderIsInDoubt(info, incarnation, asked)) {
    const bool waited = co_await SleepFor(kHolderLook);
    if (!waited) co_return Fail(Code::kTimeout, "the node no longer waits to be registered");
  }
  auto work = [this, info = std::move(info), incarnation] {
    return RegisterNow(info, incarnation);
  };
  Status done = co_await offload_.Run(std::move(work));
  co_return done;
}

/// True while the id's holder counts as alive but has given no sign of life since `asked`.
bool ClusterMembers::HolderIsInDoubt(const NodeInfo& info, std::uint64_t incarnation,
                                     TimePoint asked) const {
  std::scoped_lock lock(mutex_);
  const std::optional<TimePoint> heard = members_.HolderHeard(info, incarnation, Clock::now());
  return heard && *heard <= asked;
}

std::optional<std::string> ClusterMembers::HeldAt(const std::string& id,
                                                  std::uint64_t incarnation) const {
  std::scoped_lock lock(mutex_);
  return members_.HeldAt(id, incarnation, Clock::now());
}

Status ClusterMembers::RegisterNow(const NodeInfo& info, std::uint64_t incarnation) {
  std::scoped_lock changing(change_mutex_);
  MemberTable::Registration plan;
  std::shared_ptr<const RingTable> table;
  std::vector<NodeInfo> nodes;
  {
    std::scoped_lock lock(mutex_);
    table = table_;
    const NodeInfo* tabled = table->Find(info.id);
    const auto capacity = tabled == nullptr ? std::nullopt : std::optional(tabled->capacity_bytes);
    Result<MemberTable::Registration> planned =
        members_.PlanRegistration(info, incarnation, capacity, Clock::now());
    if (!planned) return Fail(planned.error());
    plan = std::move(*planned);
    nodes = NodesWith({plan.member});
  }
  std::shared_ptr<const RingTable> next;
  if (plan.new_table) {
    next =
        std::make_shared<const RingTable>(RingTable::Next(*table, std::move(nodes), UnixSeconds()));
    if (next->Find(info.id) == nullptr) {
      return Fail(Code::kInvalid, "the ring is full: node " + info.id + " cannot join");
    }
  }
  Status persisted = Persist({plan.member}, {}, next);
  if (!persisted) return persisted;
  spdlog::info("node {} at {} registered (incarnation {:016x}, {} bytes), ring epoch {}", info.id,
               info.address, incarnation, info.capacity_bytes, epoch());
  return {};
}

std::vector<NodeInfo> ClusterMembers::NodesWith(const std::vector<Member>& changed) const {
  std::map<std::string, NodeInfo> nodes;
  // Without what time says: a node that drains owns nothing, silent or not.
  for (const auto& [id, member] : members_.members()) {
    if (member.in_ring()) nodes.insert_or_assign(id, member.info);
  }
  for (const Member& member : changed) {
    if (member.in_ring()) {
      nodes.insert_or_assign(member.info.id, member.info);
    } else {
      nodes.erase(member.info.id);
    }
  }
  std::vector<NodeInfo> list;
  list.reserve(nodes.size());
  for (auto& [id, node] : nodes) list.push_back(std::move(node));
  return list;
}

Status ClusterMembers::Persist(const std::vector<Member>& changed,
                               const std::vector<std::string>& forgotten,
                               std::shared_ptr<const RingTable> next, StateBatch batch) {
  for (const Member& member : changed) batch.Put(MemberKey(member.info.id), EncodeMember(member));
  for (const std::string& id : forgotten) batch.Delete(MemberKey(id));
  if (next) batch.Put(kTableKey, next->Serialize());
  Status written = store_.Write(batch, fence_);
  if (!written) return written;

  std::scoped_lock lock(mutex_);
  for (const Member& member : changed) members_.Commit(member);
  for (const std::string& id : forgotten) members_.Forget(id);
  if (next) {
    table_ = std::move(next);
    epoch_.store(table_->epoch(), std::memory_order_release);
  }
  return {};
}

Task<Result<bool>> ClusterMembers::Change(Plan plan, StateBatch also) {
  auto work = [this, plan = std::move(plan), also = std::move(also)] {
    return ChangeNow(plan, also);
  };
  Result<bool> changed = co_await offload_.Run(std::move(work));
  co_return changed;
}

Result<bool> ClusterMembers::ChangeNow(const Plan& plan, StateBatch also) {
  std::scoped_lock changing(change_mutex_);
  Member after;
  bool moves = false;
  std::vector<NodeInfo> nodes;
  std::shared_ptr<const RingTable> table;
  {
    std::scoped_lock lock(mutex_);
    Result<std::optional<Member>> planned = plan(members_, Clock::now(), UnixSeconds());
    if (!planned) return Fail(planned.error());
    if (!planned->has_value()) return false;
    after = std::move(**planned);
    moves = members_.members().at(after.info.id).info.state != after.info.state;
    nodes = NodesWith({after});
    table = table_;
  }
  std::shared_ptr<const RingTable> next;
  if (moves) {
    next =
        std::make_shared<const RingTable>(RingTable::Next(*table, std::move(nodes), UnixSeconds()));
  }
  Status persisted = Persist({after}, {}, std::move(next), std::move(also));
  if (!persisted) return Fail(persisted.error());
  return true;
}

bool ClusterMembers::Heartbeat(const std::string& id, std::uint64_t incarnation,
                               std::optional<std::uint64_t> room_bytes) {
  std::scoped_lock lock(mutex_);
  const TimePoint now = Clock::now();
  const bool known = members_.Heartbeat(id, incarnation, now);
  if (known && room_bytes) members_.NoteRoom(id, *room_bytes, now);
  return known;
}

Task<Status> ClusterMembers::Tick() {
  bool due = false;
  {
    std::scoped_lock lock(mutex_);
    due = !members_.PlanOuts(Clock::now(), UnixSeconds()).empty() ||
          !members_.PlanWeights(Clock::now()).empty() ||
          !members_.PlanForgotten(Clock::now(), UnixSeconds()).empty();
  }
  if (!due) co_return Status();
  auto work = [this] { return TickNow(); };
  Status done = co_await offload_.Run(std::move(work));
  co_return done;
}

Status ClusterMembers::TickNow() {
  std::scoped_lock changing(change_mutex_);
  std::vector<Member> outs;
  std::vector<Member> weighed;
  std::vector<Member> changed;
  std::vector<std::string> forgotten;
  std::vector<NodeInfo> nodes;
  std::shared_ptr<const RingTable> table;
  {
    std::scoped_lock lock(mutex_);
    outs = members_.PlanOuts(Clock::now(), UnixSeconds());
    weighed = members_.PlanWeights(Clock::now());
    forgotten = members_.PlanForgotten(Clock::now(), UnixSeconds());
    changed = outs;
    changed.insert(changed.end(), weighed.begin(), weighed.end());
    nodes = NodesWith(changed);
    table = table_;
  }
  if (changed.empty() && forgotten.empty()) return {};
  std::shared_ptr<const RingTable> next;
  if (!changed.empty()) {
    next =
        std::make_shared<const RingTable>(RingTable::Next(*table, std::move(nodes), UnixSeconds()));
  }
  Status persisted = Persist(changed, forgotten, next);
  if (!persisted) return persisted;
  for (const Member& member : outs) {
    spdlog::warn(
        "node {} has been silent for too long and is out of the ring, epoch {}: its share "
        "goes to the others; it joins again when it comes back",
        member.info.id, epoch());
  }
  for (const Member& member : weighed) {
    spdlog::warn(
        "the disks of node {} hold {} bytes now: its share of the ring is another, epoch {}",
        member.info.id, member.info.capacity_bytes, epoch());
  }
  return {};
}

std::shared_ptr<const Buffer> ClusterMembers::SerializedTable() {
  std::scoped_lock lock(mutex_);
  std::vector<NodeInfo> nodes = members_.Nodes(Clock::now(), false);
  const bool fresh =
      serialized_ && serialized_epoch_ == table_->epoch() && serialized_nodes_ == nodes;
  if (fresh) return serialized_;
  const std::string bytes = table_->WithNodeDetails(nodes).Serialize();
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  serialized_ = std::move(buffer);
  serialized_nodes_ = std::move(nodes);
  serialized_epoch_ = table_->epoch();
  return serialized_;
}

std::vector<MemberView> ClusterMembers::Members() const {
  const TimePoint now = Clock::now();
  std::scoped_lock lock(mutex_);
  std::vector<MemberView> views;
  for (const auto& [id, member] : members_.members()) {
    MemberView view{.info = member.info,
                    .incarnation = member.incarnation,
                    .silence = now - member.heard,
                    .out_unix_s = member.out_unix_s,
                    .dismissal = member.dismissal,
                    .drains = member.info.state == NodeState::kDraining};
    view.info.state = members_.StateOf(member, now);
    views.push_back(std::move(view));
  }
  return views;
}

std::shared_ptr<const RingTable> ClusterMembers::Table() const {
  std::scoped_lock lock(mutex_);
  return table_;
}

double ClusterMembers::CapacityShare(const std::string& id) const {
  std::scoped_lock lock(mutex_);
  return members_.CapacityShare(id, Clock::now());
}

Roster ClusterMembers::CurrentRoster() const {
  Roster roster;
  std::scoped_lock lock(mutex_);
  for (NodeInfo& node : members_.Nodes(Clock::now(), false)) {
    (node.state == NodeState::kSuspect ? roster.absent : roster.up).push_back(std::move(node));
  }
  roster.ring = table_;
  return roster;
}

std::vector<NodeInfo> ClusterMembers::UpNodes() const {
  std::scoped_lock lock(mutex_);
  std::vector<NodeInfo> nodes = members_.Nodes(Clock::now(), false);
  std::erase_if(nodes, [](const NodeInfo& node) { return node.state == NodeState::kSuspect; });
  return nodes;
}

}  // namespace forebay
