#include "fuse-client/link_follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
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

/// The mount's own link; null when it has gone, or whoever says so may be wrong.
const proto::LinkState* LinkFollower::NoteWhatIsThere(const KnownLinks& known) {
  using enum LinkPresence::State;
  const proto::LinkSpec& shown = parts_.mount.found().link.spec();
  const auto link = std::ranges::find(
      known.links, shown.name(), [](const proto::LinkState& each) { return each.spec().name(); });
  const bool has_name = link != known.links.end();
  if (has_name && link->spec().id() == shown.id()) {
    if (!known.from_disk && Believes(followed_, known.fence)) followed_ = HeardFrom(known);
    parts_.mount.SetPresence(kThere);
    return &*link;
  }
  if (TellsWhatHasGone(followed_, known)) parts_.mount.SetPresence(has_name ? kMadeAnew : kRemoved);
  return nullptr;
}

void LinkFollower::Look(const std::stop_token& stop) {
  const std::string name = parts_.mount.found().link.spec().name();
  if (followed_.epoch == 0) followed_ = parts_.source.HeardOf(name);
  const auto ask = [&](const std::string& of) {
    return WaitFor(parts_.control, parts_.stopping, parts_.source.Links(of));
  };
  Result<KnownLinks> known = ask(name);
  if (!known && known.error().code == Code::kNotFound) {
    if (parts_.mount.presence() == LinkPresence::State::kRemoved) return;
    known = ask("");  // who says so, and whether it would know
  }
  if (!known || known->cluster != parts_.mount.found().cluster) return;
  const proto::LinkState* const link = NoteWhatIsThere(*known);
  if (link == nullptr) return;
  parts_.mount.Heed(*link);
  if (!parts_.mount.IsBehind(*link)) return;
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
