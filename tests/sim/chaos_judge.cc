// How a life is lived to its end, and what is judged then.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/sim/chaos.h"

namespace forebay::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kFaultsFor{10};
constexpr seconds kCalmAfter{20};
/// Readers are done after this, whatever happened: no fault lasts longer than their patience.
constexpr seconds kPatience{150};
constexpr std::size_t kReadersOfMount = 3;
constexpr std::size_t kHerd = 1000;
constexpr std::size_t kReadsOfReader = 40;
constexpr milliseconds kPauseOfReader{400};
/// As long as S3 takes, half of the time.
constexpr milliseconds kLittlePatience{60};
/// What one fault may cost a read (DESIGN section 2), less a tick of a real connection, which sees
/// silence a tenth of a second late.
constexpr milliseconds kLongestWithOneFault{2900};
/// A request to S3 gets no answer for five seconds before that is known.
constexpr milliseconds kLongestUnserved{5400};
/// Cells of a reader far behind a block's front (cachenode/fill_order.h).
constexpr std::uint32_t kFarCells = 128U << 10U;
/// A node looks for pinned copies once in a while (kLookForCopies), and releases them in steps.
constexpr seconds kReleasedWithin{5};

}  // namespace

void Chaos::BeginReading() {
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kReadersOfMount; ++i) {
      mount->Read({.count = kReadsOfReader,
                   .next = [this] { return SimMount::Wanted{world_.Random(data_.size())}; },
                   .pause = kPauseOfReader});
    }
  }
}

void Chaos::BeginHerd() {
  const std::size_t block = world_.Random(data_.size());
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kHerd / mounts_.size(); ++i)
      mount->Read({.count = 1, .next = [block] { return SimMount::Wanted{block}; }});
  }
}

// Many ask for a block that nobody has, and most of them give up before it is there.
void Chaos::BeginImpatience() {
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kReadersOfMount * 4; ++i) {
      mount->Read({.count = kReadsOfReader,
                   .next = [this] { return SimMount::Wanted{world_.Random(data_.size())}; },
                   .pause = kPauseOfReader,
                   .patience = kLittlePatience});
    }
  }
}

void Chaos::BeginFar() {
  for (const auto& mount : mounts_) {
    for (std::size_t i = 0; i < kReadersOfMount; ++i) {
      mount->Read({.count = kReadsOfReader / 4,
                   .next =
                       [this] {
                         SimMount::Wanted wanted{world_.Random(data_.size())};
                         const std::uint32_t length = data_.RequestFor(wanted.number).block.length;
                         if (length <= kFarCells || world_.Chance(0.2)) return wanted;
                         const auto begin =
                             static_cast<std::uint32_t>(world_.Random(length - kFarCells));
                         wanted.range = {begin, begin + kFarCells};
                         return wanted;
                       },
                   .pause = kPauseOfReader});
    }
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
  judging_gets_ = false;  // until all know it
  network_.SetFaults({});
  Heal();
  s3_.HangUntil(world_.now());
  if (unserved_ == nullptr)
    for (const auto& machine : machines_) s3_.Find(machine->id);
  for (const auto& machine : machines_) {
    if (machine->node) machine->node->process().Continue();
    if (!machine->node && !Is(Story::kLost)) StartNode(*machine, true);
  }
  if (Is(Story::kAlone)) return;
  if (!coordinator_) StartCoordinator();
  for (const auto& machine : machines_) {
    (void)coordinator_->Decide(
        [&](const MemberTable& members, TimePoint) { return members.PlanReturn(machine->id); });
  }
}

void Chaos::ReadAll() {
  for (const auto& mount : mounts_) {
    auto next = std::make_shared<std::size_t>(0);
    mount->Read({.count = data_.size(),
                 .next = [next] { return SimMount::Wanted{(*next)++}; },
                 .pause = milliseconds(10)});
  }
}

bool Chaos::Has(const std::string& id, const BlockId& block) const {
  return std::ranges::any_of(machines_, [&](const auto& machine) {
    return machine->id == id && machine->node && machine->node->Has(block);
  });
}

// Whoever asks S3 while all is well must have had nobody to ask.
void Chaos::NoteGet(std::size_t number, const std::string& node) {
  if (Is(Story::kUnserved) && s3_.is_asked_in_vain(number))
    Broken(fmt::format("{} asks S3 for block {} while another one still does", node, number));
  if (!judging_gets_) return;
  const BlockId& block = data_.RequestFor(number).block;
  const RingTable& table = *coordinator_disk_.table;
  bool ahead = true;
  for (const std::uint16_t index : table.OwnersOf(PartitionOf(block))) {
    const std::string& id = table.nodes()[index].id;
    if (id == node) {
      ahead = false;
    } else if (Has(id, block) && ahead) {
      Broken(fmt::format("{} asked S3 for a block that {}, ahead of it, has", node, id));
    } else if (Has(id, block)) {
      ++outcome_.gets_behind;
    }
  }
  for (const std::string& id : former_[number]) {
    if (id != node && table.Find(id) != nullptr && Has(id, block))
      Broken(fmt::format("{} asked S3 for a block that {}, which owned it before, has", node, id));
  }
  for (const NodeInfo& going : table.nodes()) {
    if (going.state == NodeState::kDraining && going.id != node && Has(going.id, block))
      Broken(fmt::format("{} asked S3 for a block that {}, which is drained, has", node, going.id));
  }
}

// Whoever gives up a pinned block leaves one that can be read, or that is there when its node is.
void Chaos::NoteRelease(const Machine& from, const BlockId& block) {
  ++outcome_.released;
  const bool elsewhere = std::ranges::any_of(machines_, [&](const auto& machine) {
    return machine.get() != &from && machine->disk.blocks->Contains(block);
  });
  if (!elsewhere) Broken(fmt::format("{} gave up the last copy of a pinned block", from.id));
}

// With all nodes in the ring and one copy of each block, the owner's is left.
void Chaos::JudgeReleased() {
  world_.RunUntil(world_.now() + kReleasedWithin);
  const RingTable& table = *coordinator_disk_.table;
  for (const auto& machine : machines_) {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const BlockId& block = data_.RequestFor(i).block;
      const std::string& owner = table.nodes()[table.OwnersOf(PartitionOf(block)).front()].id;
      // A reader who was answered elsewhere first may have left the owner without it.
      if (machine->id != owner && machine->node && machine->node->Has(block) && Has(owner, block))
        Broken(fmt::format("{} keeps a copy of block {}, which its owner has", machine->id, i));
    }
  }
}

void Chaos::JudgeGets() {
  const RingTable& table = *coordinator_disk_.table;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    // A far reader's block comes in two (docs/adr/0032).
    std::uint64_t allowed = Is(Story::kFar) ? 2 : 1;
    const std::uint16_t first = table.OwnersOf(PartitionOf(data_.RequestFor(i).block)).front();
    // What the victim held is fetched again by who stands in for it, and was perhaps on its way.
    if (victim_ != nullptr && table.nodes()[first].id == victim_->id) allowed = 2;
    if (s3_.gets_of(i) > allowed)
      Broken(fmt::format("block {} cost {} GETs, not {}", i, s3_.gets_of(i), allowed));
  }
}

// Two GETs of one block are for two parts of it.
void Chaos::JudgeAgain() {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    if (s3_.again_of(i) > 0)
      Broken(fmt::format("{} bytes of block {} came from S3 twice", s3_.again_of(i), i));
  }
}

// It is too much for one node alone.
void Chaos::JudgeHerd() {
  std::uint64_t sent_on = 0;
  for (const auto& machine : machines_) sent_on += machine->node->sent_on();
  if (sent_on == 0) Broken("one node answered a thousand readers alone");
}

// What a GET was spent on is there, also when nobody waited for it any more.
void Chaos::JudgeKept() {
  if (tally_.given_up == 0) Broken("no reader gave up");
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const BlockId& block = data_.RequestFor(i).block;
    const bool kept = std::ranges::any_of(
        machines_, [&](const auto& machine) { return machine->node && machine->node->Has(block); });
    if (s3_.gets_of(i) > 0 && !kept)
      Broken(fmt::format("the fill of block {} ended with its readers", i));
  }
}

void Chaos::Judge() {
  if (tally_.wrong > 0) Broken(fmt::format("{} reads had wrong bytes", tally_.wrong));
  if (tally_.failed > 0)
    Broken(fmt::format("{} reads failed: {}", tally_.failed, tally_.first_failure));
  if (tally_.far > 0)
    Broken(fmt::format("{} reads came from another zone, and a copy was near", tally_.far));
  const bool one_fault = !Is(Story::kChaos) && !Is(Story::kPending) && !Is(Story::kWeek);
  const Duration longest =
      Is(Story::kUnserved) ? Duration(kLongestUnserved) : Duration(kLongestWithOneFault);
  if (one_fault && tally_.longest > longest) {
    Broken(fmt::format("a read took {} ms",
                       std::chrono::duration_cast<milliseconds>(tally_.longest).count()));
  }
  const std::uint64_t epoch = coordinator_disk_.table->epoch();
  for (const auto& machine : machines_) {
    if (!machine->node) continue;
    outcome_.second_gets += machine->node->second_gets();
    outcome_.stand_in_fills += machine->node->stand_in_fills();
    if (machine->node->fills() > 0) Broken(machine->id + " still fills a block");
    if (machine->node->ring_epoch() != epoch)
      Broken(fmt::format("{} goes by ring {} and not {}", machine->id, machine->node->ring_epoch(),
                         epoch));
  }
  if (outcome_.stand_in_fills < unserved_blocks_) {
    Broken(fmt::format("{} of {} blocks were fetched in the place of {}", outcome_.stand_in_fills,
                       unserved_blocks_, unserved_->id));
  }
  for (const auto& mount : mounts_) {
    if (mount->ring_epoch() != epoch)
      Broken(fmt::format("a mount goes by ring {} and not {}", mount->ring_epoch(), epoch));
  }
}

// Until all is well again.
void Chaos::Live() {
  const TimePoint begin = world_.now();
  WatchTables();
  if (Is(Story::kWeek)) return LiveForAWeek();
  if (Is(Story::kChaos)) {
    network_.SetFaults({.late = 0.08, .reset = 0.04, .flipped = 0.02});
    world_.After(seconds(1), [this] { ScheduleFaults(); });
  } else {
    world_.After(seconds(1), [this] { DoOne(AnyNode()); });
  }
  if (Is(Story::kHerd)) {
    BeginHerd();
  } else if (Is(Story::kImpatient)) {
    BeginImpatience();
  } else if (Is(Story::kFar)) {
    BeginFar();
  } else {
    BeginReading();
  }
  world_.RunUntil(begin + kFaultsFor);
  MakeWell();
  FinishReading("of a job");
  world_.RunUntil(world_.now() + kCalmAfter);
  if (Is(Story::kImpatient)) JudgeKept();
}

Outcome Chaos::Run() {
  const TimePoint begin = world_.now();
  Live();
  judging_gets_ = Is(Story::kChaos) || Is(Story::kLeaving) || Is(Story::kWeek);
  ReadAll();
  FinishReading("of all blocks");
  // Where owners come and go, or all disks do, who asked whom is judged GET by GET.
  const bool counted = !judging_gets_ && !Is(Story::kLost);
  if (counted) JudgeGets();
  if (counted && victim_ == nullptr) JudgeAgain();
  if (Is(Story::kHerd)) JudgeHerd();
  if (Is(Mutant::kForgetsBlocks)) {
    for (const auto& machine : machines_) {
      machine->node.reset();
      machine->disk.blocks = std::make_unique<fakes::MemoryBlockStore>();
      StartNode(*machine, true);
    }
  }
  const std::uint64_t before = s3_.gets();
  if (Is(Story::kZones)) {
    for (const auto& mount : mounts_) mount->JudgeZones();
  }
  ReadAll();
  FinishReading("of all blocks once more");
  if (s3_.gets() != before)
    Broken(fmt::format("all was cached and well, and cost {} GETs", s3_.gets() - before));
  if (pinned_ && data_.link().replicas == 1) JudgeReleased();
  Judge();
  outcome_.simulated = world_.now() - begin;
  Sum();
  return std::move(outcome_);
}

void Chaos::Sum() {
  outcome_.seeds = 1;
  outcome_.reads = tally_.reads;
  outcome_.given_up = tally_.given_up;
  outcome_.excused = tally_.excused;
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
}

}  // namespace forebay::sim
