#include "tests/sim/chaos.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/wall_clock.h"

namespace forebay::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kFaultsFor{10};
constexpr seconds kCalmAfter{20};
/// Readers are done after this, whatever happened: no fault lasts longer than kLongest.
constexpr seconds kPatience{150};
constexpr milliseconds kLongest{6000};
constexpr std::size_t kReadersOfMount = 3;
constexpr std::size_t kHerd = 1000;
constexpr std::size_t kReadsOfReader = 40;
constexpr milliseconds kPauseOfReader{400};
/// Silence and what the next owner takes: what one fault may cost a read (DESIGN section 2).
constexpr milliseconds kLongestWithOneFault{3600};
/// A node that is out for so long leaves the ring: soon enough to happen here.
constexpr seconds kOutAfter{8};

MembershipTimes Times() {
  MembershipTimes times;
  times.out_after = kOutAfter;
  times.restart_grace = seconds(3);
  return times;
}

}  // namespace

std::string_view StoryName(Story story) {
  constexpr std::array<std::string_view, kStories> kNames = {
      "calm", "killed", "stopped", "lost", "cut off", "no coordinator", "herd", "chaos"};
  return kNames[static_cast<std::size_t>(story)];
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
  longest = std::max(longest, other.longest);
  for (const auto& [fault, count] : other.by_fault) by_fault[fault] += count;
  broken.insert(broken.end(), other.broken.begin(), other.broken.end());
}

Beginnings::Beginnings() {
  for (std::size_t count = kFewest; count <= kMost; ++count) {
    CoordinatorState state;
    std::vector<NodeInfo> nodes;
    for (std::size_t i = 0; i < count; ++i) {
      Member member;
      member.info.id = fmt::format("node-{}", i);
      member.info.address = fmt::format("10.0.2.{}:7442", i);
      member.info.capacity_bytes = 1ULL << 30U << (i % 3);
      nodes.push_back(member.info);
      state.members.push_back(std::move(member));
    }
    state.table = std::make_shared<const RingTable>(RingTable::Next(RingTable(), nodes, 0));
    states_.push_back(std::move(state));
  }
}

Chaos::Chaos(std::uint64_t seed, Story story, const Beginnings& beginnings, const Dataset& data,
             NodeShared& shared)
    : seed_(seed),
      story_(story),
      data_(data),
      shared_(shared),
      world_(seed),
      network_(world_),
      s3_(world_, data),
      coordinator_disk_(beginnings.Of(Beginnings::kFewest +
                                      world_.Random(Beginnings::kMost - Beginnings::kFewest + 1))),
      first_epoch_(coordinator_disk_.table->epoch()) {
  SetNetwork(&network_);
  s3_.OnGet([this](std::size_t object, const std::string& node) { NoteGet(object, node); });
  coordinator_ = std::make_unique<SimCoordinator>(world_, network_, coordinator_disk_, Times());
  for (const Member& member : coordinator_disk_.members) {
    auto machine = std::make_unique<Machine>();
    machine->id = member.info.id;
    machine->address = member.info.address.substr(0, member.info.address.find(':'));
    machine->capacity = member.info.capacity_bytes;
    machine->disk.ring = coordinator_disk_.table;
    machines_.push_back(std::move(machine));
    StartNode(*machines_.back(), false);
  }
  const std::size_t mounts = 2 + world_.Random(2);
  for (std::size_t i = 0; i < mounts; ++i) {
    mounts_.push_back(
        std::make_unique<SimMount>(world_, network_, data_, fmt::format("10.0.3.{}", i), tally_));
    mounts_.back()->Offer(*coordinator_disk_.table);
  }
}

Chaos::~Chaos() {
  // What still waits for an answer gives it up as it ends.
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
  machine.node = std::make_unique<SimNode>(world_, network_, s3_, data_, machine.disk, shared_,
                                           std::move(options));
}

void Chaos::Broken(std::string sentence) {
  outcome_.broken.push_back(
      fmt::format("seed {} ({}): {}", seed_, StoryName(story_), std::move(sentence)));
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
    machine.disk.ring = std::make_shared<const RingTable>();
  }
  world_.After(until_restart, [this, &machine] {
    if (!machine.node) StartNode(machine, true);
  });
}

void Chaos::StopFor(Machine& machine, Duration how_long) {
  if (!machine.node || machine.node->process().stopped()) return;
  Count("node stopped");
  machine.node->process().Stop();
  const SimNode* which = machine.node.get();
  world_.After(how_long, [&machine, which] {
    if (machine.node.get() == which) machine.node->process().Continue();
  });
}

void Chaos::KillCoordinator(Duration until_restart) {
  if (!coordinator_) return;
  Count("coordinator killed");
  coordinator_.reset();
  world_.After(until_restart, [this] {
    if (!coordinator_)
      coordinator_ = std::make_unique<SimCoordinator>(world_, network_, coordinator_disk_, Times());
  });
}

void Chaos::DoNetworkFault(Machine& machine) {
  const Duration how_long = world_.Between(milliseconds(200), kLongest);
  const auto heal = [this] { network_.HealAll(); };
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

void Chaos::DoFault() {
  Machine& machine = AnyNode();
  switch (world_.Random(10)) {
    case 0:
    case 1:
      return Kill(machine, world_.Between(milliseconds(50), kLongest), world_.Chance(0.1));
    case 2:
    case 3:
      return StopFor(machine, world_.Between(milliseconds(50), kLongest));
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
      if (world_.Chance(0.7)) {
        Count("S3 hangs");
        return s3_.HangUntil(world_.now() + world_.Between(milliseconds(100), kLongest));
      }
      return KillCoordinator(world_.Between(milliseconds(100), kLongest));
    default:
      // Each costs a new table, which takes longer than all else here.
      if (world_.Chance(0.15)) DoDecision(machine);
      return;
  }
}

void Chaos::ScheduleFaults() {
  if (well_) return;
  DoFault();
  world_.After(world_.Between(milliseconds(5), milliseconds(150)), [this] { ScheduleFaults(); });
}

// After a second of reading, and over before the readers are done.
void Chaos::DoOne(Machine& machine) {
  victim_ = &machine;
  constexpr seconds kAway{5};
  switch (story_) {
    case Story::kCalm:
    case Story::kHerd:
    case Story::kChaos:
      return;
    case Story::kKilled:
      return Kill(machine, kAway, false);
    case Story::kStopped:
      return StopFor(machine, kAway);
    case Story::kLost:
      network_.Isolate(machine.address);
      return Kill(machine, kCalmAfter * 10, false);
    case Story::kCutOff:
      Count("machine cut off");
      network_.Isolate(machine.address);
      world_.After(kAway, [this] { network_.HealAll(); });
      return;
    case Story::kAlone:
      KillCoordinator(kCalmAfter * 10);
      Kill(machine, milliseconds(500), false);
      return;
  }
}

void Chaos::BeginReading() {
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kReadersOfMount; ++i) {
      mount->Read(kReadsOfReader, [this] { return world_.Random(data_.size()); }, kPauseOfReader);
    }
  }
}

void Chaos::BeginHerd() {
  const std::size_t object = world_.Random(data_.size());
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kHerd / mounts_.size(); ++i)
      mount->Read(1, [object] { return object; }, milliseconds(0));
  }
}

bool Chaos::SomebodyReads() const {
  return std::ranges::any_of(mounts_, [](const auto& mount) { return mount->readers() > 0; });
}

void Chaos::FinishReading(const char* when) {
  const TimePoint patience = world_.now() + kPatience;
  while (SomebodyReads() && world_.now() < patience) world_.RunUntil(world_.now() + seconds(1));
  if (SomebodyReads()) Broken(fmt::format("a read {} has not ended", when));
}

void Chaos::MakeWell() {
  well_ = true;
  network_.SetFaults({});
  network_.HealAll();
  s3_.HangUntil(world_.now());
  for (const auto& machine : machines_) {
    if (machine->node) machine->node->process().Continue();
    if (!machine->node && story_ != Story::kLost) StartNode(*machine, true);
  }
  if (story_ == Story::kAlone) return;
  if (!coordinator_)
    coordinator_ = std::make_unique<SimCoordinator>(world_, network_, coordinator_disk_, Times());
  for (const auto& machine : machines_) {
    (void)coordinator_->Decide(
        [&](const MemberTable& members, TimePoint) { return members.PlanReturn(machine->id); });
  }
}

void Chaos::ReadAll() {
  for (const auto& mount : mounts_) {
    auto next = std::make_shared<std::size_t>(0);
    mount->Read(data_.size(), [next] { return (*next)++; }, milliseconds(10));
  }
}

// Whoever asks S3 while all is well must have had nobody to ask.
void Chaos::NoteGet(std::size_t object, const std::string& node) {
  if (!judging_gets_) return;
  const BlockId& block = data_.RequestFor(object).block;
  const RingTable& table = *coordinator_disk_.table;
  const std::uint32_t partition = PartitionOf(block);
  const auto has = [&](const std::string& id) {
    return std::ranges::any_of(machines_, [&](const auto& machine) {
      return machine->id == id && machine->node && machine->node->Has(block);
    });
  };
  bool ahead = true;
  for (const std::uint16_t index : table.OwnersOf(partition)) {
    const std::string& id = table.nodes()[index].id;
    if (id == node) {
      ahead = false;
    } else if (has(id) && ahead) {
      Broken(fmt::format("{} asked S3 for a block that {}, ahead of it, has", node, id));
    } else if (has(id)) {
      ++outcome_.gets_behind;
    }
  }
  for (const PreviousOwner& owner : table.PreviousOwnersOf(partition)) {
    if (owner.node_id != node && has(owner.node_id) && table.Find(owner.node_id) != nullptr)
      Broken(fmt::format("{} asked S3 for a block that {}, which owned it before, has", node,
                         owner.node_id));
  }
}

void Chaos::JudgeGets() {
  const RingTable& table = *coordinator_disk_.table;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    std::uint64_t allowed = 1;
    const std::uint16_t first = table.OwnersOf(PartitionOf(data_.RequestFor(i).block)).front();
    // What the victim held is fetched again by who stands in for it, and was perhaps on its way.
    if (victim_ != nullptr && table.nodes()[first].id == victim_->id) allowed = 2;
    if (s3_.gets_of(i) > allowed)
      Broken(fmt::format("object {} cost {} GETs, not {}", i, s3_.gets_of(i), allowed));
  }
}

// It is too much for one node alone.
void Chaos::JudgeHerd() {
  std::uint64_t sent_on = 0;
  for (const auto& machine : machines_) sent_on += machine->node->sent_on();
  if (sent_on == 0) Broken("one node answered a thousand readers alone");
}

void Chaos::Judge() {
  if (tally_.wrong > 0) Broken(fmt::format("{} reads had wrong bytes", tally_.wrong));
  if (tally_.failed > 0)
    Broken(fmt::format("{} reads failed: {}", tally_.failed, tally_.first_failure));
  if (story_ != Story::kChaos && tally_.longest > kLongestWithOneFault) {
    Broken(fmt::format("a read took {} ms",
                       std::chrono::duration_cast<milliseconds>(tally_.longest).count()));
  }
  const std::uint64_t epoch = coordinator_disk_.table->epoch();
  for (const auto& machine : machines_) {
    if (!machine->node) continue;
    if (machine->node->fills() > 0) Broken(machine->id + " still fills a block");
    if (machine->node->ring_epoch() != epoch)
      Broken(fmt::format("{} goes by ring {} and not {}", machine->id, machine->node->ring_epoch(),
                         epoch));
  }
  for (const auto& mount : mounts_) {
    if (mount->ring_epoch() != epoch)
      Broken(fmt::format("a mount goes by ring {} and not {}", mount->ring_epoch(), epoch));
  }
}

Outcome Chaos::Run() {
  const TimePoint begin = world_.now();
  if (story_ == Story::kChaos) {
    network_.SetFaults({.late = 0.08, .reset = 0.04, .flipped = 0.02});
    world_.After(seconds(1), [this] { ScheduleFaults(); });
  } else {
    world_.After(seconds(1), [this] { DoOne(AnyNode()); });
  }
  if (story_ == Story::kHerd) {
    BeginHerd();
  } else {
    BeginReading();
  }
  world_.RunUntil(begin + kFaultsFor);
  MakeWell();
  FinishReading("of a job");
  world_.RunUntil(world_.now() + kCalmAfter);
  judging_gets_ = story_ == Story::kChaos;
  ReadAll();
  FinishReading("of all objects");
  if (story_ != Story::kChaos && story_ != Story::kLost) JudgeGets();
  if (story_ == Story::kHerd) JudgeHerd();
  const std::uint64_t before = s3_.gets();
  ReadAll();
  FinishReading("of all objects once more");
  if (s3_.gets() != before)
    Broken(fmt::format("all was cached and well, and cost {} GETs", s3_.gets() - before));
  Judge();
  outcome_.seeds = 1;
  outcome_.reads = tally_.reads;
  outcome_.longest = tally_.longest;
  outcome_.events = world_.events();
  outcome_.calls = network_.calls();
  outcome_.gets = s3_.gets();
  outcome_.tables = coordinator_disk_.table->epoch() - first_epoch_;
  outcome_.by_fault["message late"] += network_.late();
  outcome_.by_fault["connection reset"] += network_.resets();
  outcome_.by_fault["payload damaged"] += network_.flips();
  outcome_.by_fault["message lost"] += network_.lost();
  outcome_.faults += network_.late() + network_.resets() + network_.flips() + network_.lost();
  return std::move(outcome_);
}

}  // namespace forebay::sim
