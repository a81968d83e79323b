#include "fuse-client/link_follower.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "fuse-client/control_call.h"

namespace forebay {
namespace {

/// One small message to the coordinator; what a refresh found shows so much later.
constexpr std::chrono::seconds kLookEvery{2};

/// What a successor of this process goes on counting from is as old at most.
constexpr std::chrono::seconds kSaveEvery{1};

/// For a listing on its way from the coordinator; it is tried again.
constexpr std::chrono::minutes kFetchPatience{5};

}  // namespace

LinkFollower::LinkFollower(Parts parts)
    : parts_(std::move(parts)), thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

void LinkFollower::Watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  TimePoint next_look = Clock::now() + kLookEvery;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      stopped.wait_for(lock, stop, kSaveEvery, [] { return false; });
    }
    if (stop.stop_requested()) return;
    parts_.mount.SaveStats();
    if (Clock::now() < next_look) continue;
    Look(stop);
    next_look = Clock::now() + kLookEvery;
  }
}

void LinkFollower::Look(const std::stop_token& stop) {
  const std::string name = parts_.mount.found().link.spec().name();
  const Result<proto::LinkState> link =
      WaitFor(parts_.control, parts_.stopping, parts_.source.Look(name));
  if (link) parts_.mount.Heed(*link);
  if (!link || !parts_.mount.IsBehind(*link)) return;
  Result<MountedNamespace> next =
      parts_.mount.ShardOf(WaitFor(parts_.control, parts_.stopping,
                                   parts_.source.Obtain(name, Deadline::After(kFetchPatience))));
  if (!next) {
    if (!parts_.stopping.stop_requested()) {
      spdlog::warn("the new listing of \"{}\" cannot be fetched: {}", name, next.error().message);
    }
    return;
  }
  if (parts_.mount.IsBehind(next->link)) parts_.mount.Follow(std::move(*next), stop);
}

}  // namespace forebay
