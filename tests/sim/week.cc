// A week without any coordinator: what nodes and mounts keep on disk is all that they begin from.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "tests/sim/chaos.h"

namespace forebay::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// One fault after the other: with three nodes a block always has an owner that lives.
constexpr minutes kShortestPeace{5};
constexpr minutes kLongestPeace{40};
constexpr minutes kLongestDown{20};
constexpr minutes kNoNodeFor{5};
constexpr minutes kPauseOfReader{4};
constexpr seconds kToMount{90};
/// A verb without a coordinator fails within this (DESIGN section 2, issue "cluster").
constexpr milliseconds kVerbFailsIn{5000};
constexpr seconds kToSettle{20};
constexpr std::size_t kEndless = 1U << 30U;

}  // namespace

void Chaos::Remount(std::size_t which) {
  mounts_[which].reset();
  if (Is(Mutant::kEmptyMount)) {
    std::error_code ignored;
    std::filesystem::remove_all(StateDirOf(which), ignored);
  }
  StartMount(which);
  mounts_[which]->Read({.count = kEndless,
                        .next = [this] { return SimMount::Wanted{world_.Random(data_.size())}; },
                        .pause = kPauseOfReader});
}

// Once in a week: then reads may fail, and go on when the first node is back.
void Chaos::LoseAllNodes() {
  outage_begin_ = world_.now();
  outage_end_ = outage_begin_ + kNoNodeFor + seconds(10);
  for (const auto& machine : machines_) Kill(*machine, kNoNodeFor, false);
}

void Chaos::AskInVain() {
  Count("admin verb without a coordinator");
  answers_.push_back(std::make_unique<SimAdmin::Answer>());
  SimAdmin::Answer* answer = answers_.back().get();
  admin_->Ask({AnyNode().id, NodeChange::kDrain}, answer);
  world_.After(kVerbFailsIn + seconds(1), [this, answer] {
    if (!answer->done || answer->took > kVerbFailsIn) {
      Broken("an admin verb without a coordinator was not answered in time");
    } else if (answer->status) {
      Broken("an admin verb was obeyed without a coordinator");
    }
  });
}

// Answers how long it lasts.
Duration Chaos::DoInWeek() {
  Machine& machine = AnyNode();
  const Duration down = world_.Between(seconds(1), kLongestDown);
  switch (world_.Random(8)) {
    case 0:
    case 1:
      Kill(machine, down, false);
      return down;
    case 2:
      Kill(machine, down, true);
      return down;
    case 3:
      StopFor(machine, down);
      return down;
    case 4:
      Count("machine cut off");
      network_.Isolate(machine.address);
      world_.After(down, [this] { Heal(); });
      return down;
    case 5: {
      Count("mount restarted");
      const std::size_t which = world_.Random(mounts_.size());
      Remount(which);
      const std::uint64_t started = mounts_[which]->process().number();
      world_.After(kToMount, [this, started, which] {
        SimMount* mount = mounts_[which].get();
        if (mount == nullptr || mount->process().number() != started) return;
        if (mount->mounted() && mount->from_disk()) return;
        Broken(fmt::format("a mount did not come back from its disk: {}", mount->mount_error()));
      });
      return kToMount;
    }
    case 6:
      Count("S3 hangs");
      s3_.HangUntil(world_.now() + minutes(1));
      return minutes(1);
    default:
      AskInVain();
      return kVerbFailsIn + seconds(1);
  }
}

void Chaos::ScheduleWeek(TimePoint end) {
  if (world_.now() >= end) return;
  const Duration lasts = DoInWeek();
  world_.After(lasts + world_.Between(kShortestPeace, kLongestPeace),
               [this, end] { ScheduleWeek(end); });
}

// Nodes have heard of a newer one, and change nothing because of it.
void Chaos::ReturnOldCopy(CoordinatorState copy) {
  Count("old copy of a coordinator");
  const auto fence_of = [this](std::size_t i) { return machines_[i]->node->fence(); };
  std::vector<Fence> before;
  before.reserve(machines_.size());
  for (std::size_t i = 0; i < machines_.size(); ++i) before.push_back(fence_of(i));
  SimCoordinator::Options options;
  options.times.restart_grace = hours(1);
  options.link = link_;
  coordinator_ = std::make_unique<SimCoordinator>(world_, network_, copy, options);
  world_.RunUntil(world_.now() + kToSettle);
  if (coordinator_->outdated() == 0)
    Broken("an old copy of the coordinator was not told that it is one");
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    if (fence_of(i) != before[i])
      Broken(machines_[i]->id + " follows an old copy of the coordinator");
  }
  coordinator_.reset();
}

void Chaos::ReturnCoordinator() {
  StartCoordinator();
  world_.RunUntil(world_.now() + kToSettle);
  for (const auto& machine : machines_) {
    if (machine->node->fence().epoch != coordinator_disk_.starts)
      Broken(machine->id + " does not follow the coordinator that came back");
  }
  const std::vector<NodeInfo> nodes = coordinator_->Nodes();
  const bool all_up =
      std::ranges::all_of(nodes, [](const NodeInfo& node) { return node.state == NodeState::kUp; });
  if (nodes.size() != machines_.size() || !all_up)
    Broken("the coordinator that came back does not have all nodes");
  const auto shown = std::make_unique<bool[]>(mounts_.size());
  for (std::size_t i = 0; i < mounts_.size(); ++i) mounts_[i]->Look(&shown[i]);
  SimAdmin::Answer drained;
  SimAdmin::Answer back;
  const std::string node = AnyNode().id;
  admin_->Ask({node, NodeChange::kDrain}, &drained);
  world_.RunUntil(world_.now() + kToSettle);
  admin_->Ask({node, NodeChange::kUndrain}, &back);
  world_.RunUntil(world_.now() + kToSettle);
  if (!drained.done || !drained.status || !back.done || !back.status)
    Broken("an admin verb was refused by the coordinator that came back");
  for (std::size_t i = 0; i < mounts_.size(); ++i) {
    if (!shown[i]) Broken("a mount does not know its link again from the coordinator");
  }
}

void Chaos::LiveForAWeek() {
  admin_ = std::make_unique<SimAdmin>(world_, network_);
  world_.RunUntil(world_.now() + kToSettle);
  // What somebody restores from later, in vain: the coordinator has been started since.
  const CoordinatorState copy = coordinator_disk_;
  KillCoordinator(seconds(1));
  world_.RunUntil(world_.now() + kToSettle);
  Count("coordinator gone for a week");
  if (!Is(Mutant::kUndead)) coordinator_.reset();
  const std::uint64_t gets = s3_.gets();
  for (std::size_t i = 0; i < mounts_.size(); ++i) Remount(i);
  const TimePoint end = world_.now() + hours(24) * fate_.days;
  world_.After(kToMount, [this, end] { ScheduleWeek(end); });
  world_.RunUntil(end);
  // The last fault is over.
  world_.RunUntil(world_.now() + kLongestDown);
  LoseAllNodes();
  world_.RunUntil(outage_end_ + minutes(5));
  if (s3_.gets() == gets) Broken("nothing was filled in a week");
  // Their readers end with them.
  for (std::size_t i = 0; i < mounts_.size(); ++i) {
    mounts_[i].reset();
    StartMount(i);
  }
  world_.RunUntil(world_.now() + kToMount);
  offers_link_ = true;
  ReturnOldCopy(copy);
  ReturnCoordinator();
}

}  // namespace forebay::sim
