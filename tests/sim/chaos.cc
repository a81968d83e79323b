#include "tests/sim/chaos.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "common/base/wall_clock.h"
#include "tests/sim/kept_listing.h"

namespace forebay::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Until the end of a run.
constexpr seconds kForever{1000};
constexpr milliseconds kLongest{6000};
constexpr std::size_t kSizes = Beginnings::kMost - Beginnings::kFewest + 1;
constexpr std::array<const char*, 2> kZones = {"a", "b"};
/// A node that is out for so long leaves the ring: soon enough to happen here.
constexpr seconds kOutAfter{8};

MembershipTimes Times() {
  MembershipTimes times;
  times.out_after = kOutAfter;
  times.restart_grace = seconds(3);
  return times;
}

}  // namespace

constexpr std::array<std::string_view, kStories> kStoryNames = {
    "calm",      "killed", "stopped", "lost",     "cut off", "no coordinator", "herd", "pending",
    "impatient", "far",    "leaving", "unserved", "zones",   "chaos",          "week"};

std::string_view StoryName(Story story) { return kStoryNames[static_cast<std::size_t>(story)]; }

Story StoryNamed(std::string_view name) {
  return static_cast<Story>(std::ranges::find(kStoryNames, name) - kStoryNames.begin());
}

Dataset::Shape ShapeFor(Story story, std::uint32_t replicas) {
  Dataset::Shape shape;
  shape.replicas = replicas;
  if (story == Story::kZones) shape.replicas = std::max<std::uint32_t>(replicas, 2);
  if (story == Story::kWeek) shape.objects = 400;
  if (story == Story::kFar) {
    // Two blocks each; the first is large enough for readers far behind its front.
    shape.objects = 6;
    shape.object_bytes = 2'300'000;
    shape.block_bytes = 2ULL << 20U;
  }
  return shape;
}

void Outcome::Add(const Outcome& other) {
  seeds += other.seeds;
  reads += other.reads;
  faults += other.faults;
  events += other.events;
  calls += other.calls;
  gets += other.gets;
  tables += other.tables;
  gets_behind += other.gets_behind;
  given_up += other.given_up;
  excused += other.excused;
  second_gets += other.second_gets;
  stand_in_fills += other.stand_in_fills;
  released += other.released;
  simulated += other.simulated;
  longest = std::max(longest, other.longest);
  for (const auto& [fault, count] : other.by_fault) by_fault[fault] += count;
  broken.insert(broken.end(), other.broken.begin(), other.broken.end());
}

Beginnings::Beginnings() {
  for (const bool zoned : {false, true}) {
    for (std::size_t count = kFewest; count <= kMost; ++count) {
      CoordinatorState state;
      std::vector<NodeInfo> nodes;
      for (std::size_t i = 0; i < count; ++i) {
        Member member;
        member.info.id = fmt::format("node-{}", i);
        member.info.address = fmt::format("10.0.2.{}:7442", i);
        member.info.capacity_bytes = 1ULL << 30U << (i % 3);
        if (zoned) member.info.zone = kZones[i % kZones.size()];
        nodes.push_back(member.info);
        state.members.push_back(std::move(member));
      }
      state.table = std::make_shared<const RingTable>(RingTable::Next(RingTable(), nodes, 0));
      (zoned ? zoned_ : states_).push_back(std::move(state));
    }
  }
}

Chaos::Chaos(Fate fate, const Beginnings& beginnings, const Dataset& data, NodeShared& shared)
    : fate_(fate),
      data_(data),
      shared_(shared),
      world_(fate.seed),
      network_(world_),
      s3_(world_, data),
      coordinator_disk_(
          beginnings.Of(Beginnings::kFewest + world_.Random(Is(Story::kWeek) ? 1 : kSizes),
                        Is(Story::kZones) || (Is(Story::kChaos) && world_.Chance(0.5)))),
      first_epoch_(coordinator_disk_.table->epoch()),
      pinned_(Is(Story::kChaos) && (Is(Mutant::kSaysItHas) || world_.Chance(0.2))),
      former_(data.size()),
      seen_(coordinator_disk_.table) {
  SetNetwork(&network_);
  network_.HideEpochsFromMounts(Is(Mutant::kHiddenEpochs));
  if (Is(Mutant::kWrongBytes)) s3_.Damage();
  if (Is(Mutant::kRefusals)) s3_.Refuse();
  if (Is(Mutant::kWaiterEndsFill)) network_.OnGivenUp([this] { s3_.FailAllThatRun(); });
  s3_.OnGet([this](std::size_t block, const std::string& node) { NoteGet(block, node); });
  const std::size_t mounts = 2 + world_.Random(2);
  if (Is(Story::kWeek)) {
    disk_ = std::make_unique<fakes::TempDir>();
    for (std::size_t i = 0; i < mounts; ++i) {
      Result<proto::LinkState> kept = KeepListing(data_, kCoordinatorAddress, StateDirOf(i));
      if (!kept) throw std::runtime_error(kept.error().message);
      link_ = std::move(*kept);
    }
  }
  StartCoordinator();
  for (const Member& member : coordinator_disk_.members) {
    auto machine = std::make_unique<Machine>();
    machine->id = member.info.id;
    machine->address = member.info.address.substr(0, member.info.address.find(':'));
    machine->zone = member.info.zone;
    machine->capacity = member.info.capacity_bytes;
    machine->disk.ring = coordinator_disk_.table;
    if (disk_) machine->disk.view_file = *disk_ / (machine->id + ".view");
    machines_.push_back(std::move(machine));
    StartNode(*machines_.back(), false);
  }
  mounts_.resize(mounts);
  for (std::size_t i = 0; i < mounts; ++i) {
    StartMount(i);
    mounts_[i]->Offer(*coordinator_disk_.table);
  }
}

std::string Chaos::StateDirOf(std::size_t mount) const {
  return disk_ ? *disk_ / fmt::format("mount-{}", mount) : "";
}

void Chaos::StartCoordinator() {
  SimCoordinator::Options options;
  options.times = Times();
  if (offers_link_) options.link = link_;
  options.forgets_owners = Is(Mutant::kForgetsOwners);
  coordinator_ = std::make_unique<SimCoordinator>(world_, network_, coordinator_disk_, options);
}

void Chaos::StartMount(std::size_t which) {
  SimMount::Options options;
  options.machine = fmt::format("{}{}", kMountMachines, which);
  if (!machines_.front()->zone.empty()) options.zone = kZones[which % kZones.size()];
  options.knows_zone = !Is(Mutant::kBlindToZones);
  options.state_dir = StateDirOf(which);
  if (Is(Mutant::kLatePassOver)) options.silence = seconds(30);
  options.excuses = [this](TimePoint began) {
    return outage_end_ > outage_begin_ && began < outage_end_ && world_.now() > outage_begin_;
  };
  mounts_[which] = std::make_unique<SimMount>(world_, network_, data_, std::move(options), tally_);
}

Chaos::~Chaos() {
  // What still waits for an answer gives it up as it ends.
  admin_.reset();
  mounts_.clear();
  machines_.clear();
  coordinator_.reset();
  SetNetwork(nullptr);
}

void Chaos::StartNode(Machine& machine, bool restarted) {
  SimNode::Options options;
  options.id = machine.id;
  options.machine = machine.address;
  options.capacity = machine.capacity;
  options.incarnation = next_incarnation_++;
  options.restarted = restarted;
  options.zone = machine.zone;
  options.asks_nobody = Is(Mutant::kAsksNobody);
  options.stands_alone = Is(Mutant::kStandsAlone);
  options.believes_all = Is(Mutant::kBelievesAll);
  options.keeps_old_ring = Is(Mutant::kOldRing);
  options.keeps_readers = Is(Mutant::kKeepsReaders);
  options.says_it_has = Is(Mutant::kSaysItHas);
  options.pinned = pinned_;
  if (pinned_) {
    machine.disk.blocks->PinAll(
        [this, &machine](const BlockId& block) { NoteRelease(machine, block); });
  }
  machine.node = std::make_unique<SimNode>(world_, network_, s3_, data_, machine.disk, shared_,
                                           std::move(options));
}

void Chaos::Broken(std::string sentence) {
  outcome_.broken.push_back(
      fmt::format("seed {} ({}): {}", fate_.seed, StoryName(fate_.story), std::move(sentence)));
}

void Chaos::Count(const char* fault) {
  ++outcome_.faults;
  ++outcome_.by_fault[fault];
}

Chaos::Machine& Chaos::AnyNode() { return *machines_[world_.Random(machines_.size())]; }

void Chaos::Kill(Machine& machine, Duration until_restart, bool disk_too) {
  if (!machine.node) return;
  Count(disk_too ? "node killed, its disk lost" : "node killed");
  machine.node.reset();
  if (disk_too) {
    machine.disk.blocks = std::make_unique<fakes::MemoryBlockStore>();
    // In a week without a coordinator it is a disk of several that is lost.
    if (!disk_) machine.disk.ring = std::make_shared<const RingTable>();
  }
  world_.After(until_restart, [this, &machine] {
    if (!machine.node) StartNode(machine, true);
  });
}

void Chaos::StopFor(Machine& machine, Duration how_long) {
  if (!machine.node || machine.node->process().stopped()) return;
  Count("node stopped");
  machine.node->process().Stop();
  const std::uint64_t which = machine.node->process().number();
  world_.After(how_long, [&machine, which] {
    if (machine.node && machine.node->process().number() == which)
      machine.node->process().Continue();
  });
}

void Chaos::KillCoordinator(Duration until_restart) {
  if (!coordinator_) return;
  Count("coordinator killed");
  coordinator_.reset();
  world_.After(until_restart, [this] {
    if (!coordinator_) StartCoordinator();
  });
}

void Chaos::DoNetworkFault(Machine& machine) {
  const Duration how_long = Lasting();
  const auto heal = [this] { Heal(); };
  switch (world_.Random(4)) {
    case 0:
      Count("machine cut off");
      network_.Isolate(machine.address);
      break;
    case 1: {
      Count("one way cut between two nodes");
      network_.Cut(machine.address, AnyNode().address);
      break;
    }
    case 2: {
      Count("one way cut between node and mount");
      const std::string& mount =
          network_.MachineOf(mounts_[world_.Random(mounts_.size())]->process());
      const bool up = world_.Chance(0.5);
      network_.Cut(up ? mount : machine.address, up ? machine.address : mount);
      break;
    }
    default:
      Count("node cut off from the coordinator");
      network_.Cut(machine.address, kCoordinatorMachine);
      break;
  }
  world_.After(how_long, heal);
}

void Chaos::DoDecision(Machine& machine) {
  if (!coordinator_) return;
  const std::string id = machine.id;
  const std::uint64_t which = world_.Random(4);
  const bool done = coordinator_->Decide([&](const MemberTable& members, TimePoint now) {
    if (which == 0) return members.PlanDrain(id, now);
    if (which == 1) return members.PlanDismissal(id, Dismissal::kRemoved, now, UnixSeconds());
    if (which == 2) return members.PlanDismissal(id, Dismissal::kFenced, now, UnixSeconds());
    return members.PlanReturn(id);
  });
  if (done) Count("node drained, removed, fenced or taken back");
}

// Most faults are over before silence is; some go on beyond it.
Duration Chaos::Lasting() {
  return world_.Chance(0.7) ? world_.Between(milliseconds(20), milliseconds(400))
                            : world_.Between(milliseconds(400), kLongest);
}

void Chaos::DoFault() {
  Machine& machine = AnyNode();
  switch (world_.Random(10)) {
    case 0:
    case 1:
      return Kill(machine, Lasting(), !pinned_ && world_.Chance(0.1));
    case 2:
    case 3:
      return StopFor(machine, Lasting());
    case 4:
    case 5:
    case 6:
      return DoNetworkFault(machine);
    case 7:
      Count("machine slow");
      network_.Slow(machine.address, world_.Between(milliseconds(5), milliseconds(300)));
      world_.After(seconds(2), [this, &machine] { network_.NoLongerSlow(machine.address); });
      return;
    case 8:
      if (world_.Chance(0.3)) return KillCoordinator(Lasting());
      if (world_.Chance(0.5)) {
        Count("S3 hangs");
        return s3_.HangUntil(world_.now() + world_.Between(milliseconds(100), kLongest));
      }
      Count("S3 lost by one node");
      s3_.Lose(machine.id);
      world_.After(Lasting(), [this, id = machine.id] { s3_.Find(id); });
      return;
    default:
      // Each costs a new table, which takes longer than all else here.
      if (world_.Chance(pinned_ ? 0.3 : 0.06)) DoDecision(machine);
      return;
  }
}

void Chaos::ScheduleFaults() {
  if (well_) return;
  DoFault();
  world_.After(world_.Between(milliseconds(2), milliseconds(60)), [this] { ScheduleFaults(); });
}

void Chaos::Heal() {
  if (!Is(Mutant::kDeafForever)) network_.HealAll();
}

// After a second of reading, and over before the readers are done.
void Chaos::DoOne(Machine& machine) {
  constexpr seconds kAway{5};
  switch (fate_.story) {
    case Story::kCalm:
    case Story::kHerd:
    case Story::kImpatient:
    case Story::kFar:
    case Story::kZones:
    case Story::kChaos:
    case Story::kWeek:
      return;
    case Story::kPending:
      Count("S3 hangs");
      return s3_.HangUntil(world_.now() + kAway);
    case Story::kLeaving:
      return DoLeaving(machine);
    case Story::kUnserved:
      Count("S3 lost by one node");
      unserved_ = &machine;
      unserved_blocks_ = ColdBlocksOf(machine);
      return s3_.Lose(machine.id);
    default:
      break;
  }
  victim_ = &machine;
  switch (fate_.story) {
    case Story::kKilled:
      return Kill(machine, kAway, false);
    case Story::kStopped:
      return StopFor(machine, kAway);
    case Story::kLost:
      network_.Isolate(machine.address);
      return Kill(machine, kForever, false);
    case Story::kCutOff:
      Count("machine cut off");
      network_.Isolate(machine.address);
      world_.After(kAway, [this] { Heal(); });
      return;
    default:
      KillCoordinator(kForever);
      return Kill(machine, milliseconds(500), false);
  }
}

/// That nobody has asked S3 for and that are its to ask for.
std::size_t Chaos::ColdBlocksOf(const Machine& machine) const {
  const RingTable& table = *coordinator_disk_.table;
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const auto owners = table.OwnersOf(PartitionOf(data_.RequestFor(i).block));
    if (s3_.gets_of(i) == 0 && table.nodes()[owners.front()].id == machine.id) ++blocks;
  }
  return blocks;
}

// What the drained node has is looked for there while it goes, and after it has come back where it
// was meanwhile; also when another owner is lost.
void Chaos::DoLeaving(Machine& machine) {
  Count("node drained");
  const std::string id = machine.id;
  (void)coordinator_->Decide(
      [&](const MemberTable& members, TimePoint now) { return members.PlanDrain(id, now); });
  world_.After(seconds(3), [this] { judging_gets_ = true; });
  world_.After(seconds(4), [this, &machine] {
    Machine* other = &machine;
    while (other == &machine) other = &AnyNode();
    victim_ = other;
    Kill(*other, kForever, false);
  });
}

// What the ring remembers is remembered here once more, for the blocks that there are.
void Chaos::WatchTables() {
  const std::shared_ptr<const RingTable> now = coordinator_disk_.table;
  if (now != seen_) {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const std::uint32_t partition = PartitionOf(data_.RequestFor(i).block);
      const auto before = seen_->OwnersOf(partition);
      const auto after = now->OwnersOf(partition);
      if (before.empty() || after.empty()) continue;
      const std::string& was = seen_->nodes()[before.front()].id;
      const std::string& is = now->nodes()[after.front()].id;
      std::erase(former_[i], is);
      if (was == is) continue;
      std::erase(former_[i], was);
      former_[i].insert(former_[i].begin(), was);
      if (former_[i].size() > kPreviousOwners) former_[i].pop_back();
    }
    seen_ = now;
  }
  world_.After(Is(Story::kWeek) ? Duration(seconds(5)) : milliseconds(100),
               [this] { WatchTables(); });
}

}  // namespace forebay::sim
