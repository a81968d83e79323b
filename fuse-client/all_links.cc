#include "fuse-client/all_links.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "common/base/version.h"
#include "common/model/link_set.h"
#include "common/wire/messages.h"
#include "fuse-client/control_call.h"
#include "fuse-client/mountpoint.h"
#include "fuse-client/shard_view.h"

namespace forebay {

namespace {

/// Between two looks at the coordinator's links: "a few seconds" for one to appear. One small
/// message.
constexpr Duration kLookEvery = std::chrono::seconds(2);

/// A link's first listing, on its way from the coordinator, keeps the others waiting for so long.
constexpr Duration kOneLinkPatience = std::chrono::seconds(60);

/// What a successor of this process goes on counting from is as old at most.
constexpr Duration kSaveEvery = std::chrono::seconds(1);

/// Between two tries to unmount what is in use, and two looks whether it has ended.
constexpr Duration kTryEvery = std::chrono::milliseconds(200);

/// Of links that somebody has unmounted: they stay so. The value is the link's id.
const std::string kUnmounted = "unmounted/";

/// The fence of the newest coordinator that was followed.
const std::string kFollowed = "links-of/";

/// Ends with what no name has.
std::string UnmountedKey(const std::string& name) { return kUnmounted + name + "/"; }

}  // namespace

AllLinks::AllLinks(Parts parts, std::string mountpoint, std::string device)
    : parts_(std::move(parts)),
      mountpoint_(std::move(mountpoint)),
      device_(std::move(device)),
      thread_("mount-links", 1) {}

AllLinks::~AllLinks() {
  watcher_ = std::jthread();
  thread_.Stop();
}

Status AllLinks::MakeDirectory(const KnownLinks& first, std::optional<InheritedMount> inherited) {
  const MountConfig& config = parts_.links.config;
  LinkDirectory::Options options;
  options.mount.source = device_;
  options.mount.mountpoint = mountpoint_;
  options.mount.allow_other = config.allow_other;
  // fusermount3 lets a user mount on directories of their own only.
  const bool root = ::geteuid() == 0;
  if (!root && !inherited) {
    const Status allowed = CheckUserAllowOther();
    if (!allowed) return allowed;
  }
  // fusermount3 asks whether the user may write a directory before it mounts there.
  options.mount.read_only = root;
  options.uid = root ? config.uid : ::geteuid();
  options.gid = root ? config.gid : ::getegid();
  options.mode = config.dir_mode;
  options.cluster = first.cluster;
  options.cluster_dir = first.cluster_dir;
  // fusermount3 looks at the links' directories as another user than ours, and the kernel lets
  // nobody else look at a user's mount, not even root, unless all may.
  if (!root && !config.allow_other) {
    options.mount.allow_other = true;
    options.mode = S_IRWXU;
  }
  LinkMountShares& links = parts_.links;
  Result<std::unique_ptr<LinkDirectory>> directory =
      LinkDirectory::Make(std::move(options),
                          {thread_.At(0), links.keeper, links.keeper.Arena(links.threads.size()),
                           [this] { directory_ended_ = true; }},
                          std::move(inherited));
  if (!directory) return Fail(directory.error());
  directory_ = std::move(*directory);
  thread_.Start();
  return {};
}

Status AllLinks::Start(KnownLinks first, std::vector<InheritedMount> inherited) {
  std::optional<InheritedMount> top;
  const auto is_top = [](const InheritedMount& mount) { return mount.mount.top(); };
  if (const auto found = std::ranges::find_if(inherited, is_top); found != inherited.end()) {
    top = std::move(*found);
    inherited.erase(found);
  }
  const Status made = MakeDirectory(first, std::move(top));
  if (!made) return made;
  const bool is_first = inherited.empty();
  cluster_ = first.cluster;
  followed_ = HeardFrom(first);
  GoOnWith(std::move(inherited));
  Apply(first);
  const Status whole = is_first ? CheckWhole(first) : Status();
  if (!whole) return whole;
  watcher_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  return {};
}

/// What is open of a link is served at once; only then does anybody look at paths.
void AllLinks::GoOnWith(std::vector<InheritedMount> inherited) {
  for (const auto& [key, kept] : parts_.links.keeper.TakeInherited(kUnmounted)) {
    const std::size_t name_size = key.size() - kUnmounted.size() - 1;
    places_[key.substr(kUnmounted.size(), name_size)] = Place{nullptr, kept.value};
  }
  for (const auto& [key, kept] : parts_.links.keeper.TakeInherited(kFollowed)) {
    proto::Fence fence;
    if (ParseMessage(kept.value, fence)) followed_ = FromProto(fence);
  }
  for (InheritedMount& mine : inherited) {
    const std::string name = mine.mount.link();
    const bool leaving = mine.mount.leaving();
    Status status = FindGeneration(mine);
    if (!status) {
      spdlog::error("the mount of link \"{}\" ends: {}", name, status.error().message);
      DetachLazily(mine.mount.mountpoint());
      DropMount(parts_.links.keeper, mine.connection);
      continue;
    }
    auto mount = std::make_unique<LinkMount>(parts_.links, std::move(mine), [] {});
    status = mount->Start();
    if (!status) Complain(name, status.error().message);
    if (leaving && status) mount->SetPresence(LinkPresence::State::kRemoved);
    if (leaving || !status) {
      leaving_.push_back(std::move(mount));
      continue;
    }
    const std::string id = mount->found().link.spec().id();
    places_[name] = Place{std::move(mount), id};
    ++mounted_;
  }
}

Result<MountedNamespace> AllLinks::Obtain(const std::string& name) {
  return TakeShard(WaitFor(parts_.control, parts_.stopping,
                           parts_.source.Obtain(name, Deadline::After(kOneLinkPatience))),
                   parts_.links.config.shard, "");
}

Status AllLinks::FindGeneration(InheritedMount& inherited) {
  if (!inherited.generations.empty()) return {};
  Result<MountedNamespace> found = Obtain(inherited.mount.link());
  if (!found) return Fail(found.error());
  inherited.generations.push_back(std::move(*found));
  return {};
}

void AllLinks::Watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  TimePoint next_look = Clock::now() + kLookEvery;
  TimePoint next_save = Clock::now() + kSaveEvery;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      stopped.wait_for(lock, stop, kTryEvery, [] { return false; });
    }
    LookAfterTheLeaving();
    if (Clock::now() >= next_save) {
      SaveStats();
      next_save = Clock::now() + kSaveEvery;
    }
    if (directory_ended_) {
      // Out of the tree by another hand: no more links come, and the last that is used ends it.
      const bool used = std::ranges::any_of(places_, [](const auto& place) {
        return place.second.mount != nullptr && !place.second.mount->ended();
      });
      if (used || !leaving_.empty()) continue;
      parts_.on_ended();
      return;
    }
    if (stop.stop_requested() || Clock::now() < next_look) continue;
    Result<KnownLinks> known = WaitFor(parts_.control, parts_.stopping, parts_.source.Links());
    next_look = Clock::now() + kLookEvery;
    // Without a coordinator all stays as it is; so it does with another cluster's.
    if (known && known->cluster == cluster_) Apply(*known);
  }
}

void AllLinks::Apply(const KnownLinks& known) {
  std::map<std::string, const proto::LinkState*> wanted;
  for (const proto::LinkState& link : known.links) {
    if (IsOurs(link)) wanted.emplace(link.spec().name(), &link);
  }
  const bool tells = TellsWhatHasGone(followed_, known);
  if (tells) KeepFollowed(HeardFrom(known));
  for (auto place = places_.begin(); place != places_.end();) {
    const auto link = wanted.find(place->first);
    if (link != wanted.end() && link->second->spec().id() == place->second.id) {
      Follow(place->second, *link->second);
      ++place;
      continue;
    }
    if (!tells) {
      ++place;
      continue;
    }
    TakeDown(place->second, place->first);
    parts_.links.keeper.Drop(UnmountedKey(place->first));
    place = places_.erase(place);
  }
  for (const auto& [name, link] : wanted) {
    if (!link->has_generation() || places_.contains(name)) continue;
    if (directory_ended_ || parts_.stopping.stop_requested()) return;
    MountLink(*link);
  }
  ShowConfig();
}

void AllLinks::KeepFollowed(const Fence& fence) {
  if (fence.epoch == 0 || std::exchange(followed_, fence) == fence) return;
  parts_.links.keeper.Keep(kFollowed, ToProto(fence).SerializeAsString());
}

bool AllLinks::IsOurs(const proto::LinkState& link) const {
  return parts_.set.empty() || link.spec().set() == parts_.set;
}

std::string AllLinks::DirectoryOf(const std::string& name) const {
  return parts_.set.empty() ? name : std::string(PartOf(parts_.set, name));
}

Status AllLinks::CheckWhole(const KnownLinks& first) const {
  if (parts_.set.empty()) return {};
  for (const proto::LinkState& link : first.links) {
    if (!IsOurs(link) || places_.contains(link.spec().name())) continue;
    const auto complaint = complaints_.find(link.spec().name());
    return Fail(Code::kUnavailable,
                "the part \"" + link.spec().name() + "\" of the set cannot be mounted" +
                    (complaint == complaints_.end() ? "" : ": " + complaint->second));
  }
  return {};
}

void AllLinks::ShowConfig() {
  if (parts_.set.empty()) return;
  boost::json::array parts;
  for (const auto& [name, place] : places_) {
    if (place.mount == nullptr) continue;
    const proto::GenerationInfo& generation = place.mount->found().link.generation();
    const std::string& digest = generation.listing_digest();
    boost::json::object part;
    part["part"] = DirectoryOf(name);
    part["link"] = name;
    part["generation"] = generation.generation();
    part["digest"] = digest.empty() ? boost::json::value() : boost::json::value(digest);
    parts.emplace_back(std::move(part));
  }
  boost::json::object all;
  all["schema_version"] = 1;
  all["set"] = parts_.set;
  all["shard"] = parts_.links.config.shard.is_all()
                     ? boost::json::value()
                     : boost::json::value(parts_.links.config.shard.ToString());
  all["parts"] = std::move(parts);
  all["version"] = Version();
  directory_->SetConfig(boost::json::serialize(all) + "\n");
}

void AllLinks::Follow(Place& place, const proto::LinkState& link) {
  if (place.mount == nullptr) return;
  place.mount->Heed(link);
  if (!place.mount->IsBehind(link)) return;
  const std::string& name = link.spec().name();
  Result<MountedNamespace> next = Obtain(name);
  if (!next) {
    spdlog::warn("the new listing of \"{}\" cannot be fetched: {}", name, next.error().message);
    return;
  }
  if (place.mount->IsBehind(next->link)) place.mount->Follow(std::move(*next), parts_.stopping);
}

void AllLinks::MountLink(const proto::LinkState& link) {
  const std::string& name = link.spec().name();
  Result<MountedNamespace> found = Obtain(name);
  if (!found) return Complain(name, found.error().message);
  const std::string directory = DirectoryOf(name);
  directory_->Add(directory);
  // A process before this one may have been killed when it had just mounted there.
  if (parts_.links.keeper.successor()) ClearDeadMount(mountpoint_ + "/" + directory);
  auto mount =
      std::make_unique<LinkMount>(parts_.links, std::move(*found),
                                  LinkMount::Place{"", mountpoint_ + "/" + directory, name}, [] {});
  const Status started = mount->Start();
  if (!started) {
    Complain(name, started.error().message);
    mount->Detach();
    directory_->Remove(directory);
    mount->BeginStop();
    leaving_.push_back(std::move(mount));
    return;
  }
  directory_->Show(directory);
  complaints_.erase(name);
  const std::string id = mount->found().link.spec().id();
  places_[name] = Place{std::move(mount), id};
  ++mounted_;
}

void AllLinks::Complain(const std::string& name, const std::string& message) {
  std::string& last = complaints_[name];
  if (last == message) return;
  last = message;
  spdlog::error("link \"{}\" is not shown: {}; it is tried again", name, message);
}

// Out of the tree at once; who is inside stays.
void AllLinks::TakeDown(Place& place, const std::string& name) {
  if (place.mount == nullptr) return;
  spdlog::info("link \"{}\" has gone; {} is taken down", name, place.mount->mountpoint());
  if (place.mount->TryLeave() != Unmounted::kDone) place.mount->Detach();
  directory_->Remove(DirectoryOf(name));
  // A start without a coordinator is not to bring it back.
  std::error_code ignored;
  std::filesystem::remove(FolderOf(place.mount->found()) + "/link.pb", ignored);
  place.mount->MarkLeaving();
  place.mount->SetPresence(LinkPresence::State::kRemoved);
  leaving_.push_back(std::move(place.mount));
  --mounted_;
}

void AllLinks::LookAfterTheLeaving() {
  for (auto& [name, place] : places_) {
    if (place.mount == nullptr || !place.mount->ended()) continue;
    if (!directory_ended_) {
      spdlog::info("{} has been unmounted; it stays so until the link is made anew",
                   place.mount->mountpoint());
      directory_->Remove(DirectoryOf(name));
      parts_.links.keeper.Keep(UnmountedKey(name), place.id);
    }
    leaving_.push_back(std::move(place.mount));
    --mounted_;
  }
  std::erase_if(leaving_, [](const std::unique_ptr<LinkMount>& mount) {
    if (!mount->ended()) return false;
    mount->BeginStop();
    if (!mount->Idle()) return false;
    mount->LogTotals();
    return true;
  });
}

void AllLinks::Leave(Deadline last_try) {
  watcher_ = std::jthread();  // asks it to stop, and joins
  bool said_so = false;
  for (;;) {
    bool busy = false;
    for (auto& [name, place] : places_) {
      if (place.mount != nullptr && place.mount->TryLeave() == Unmounted::kBusy) busy = true;
    }
    if (!busy || last_try.Expired()) break;
    if (!said_so) {
      spdlog::info("links below {} are in use; waiting until they can be unmounted", mountpoint_);
    }
    said_so = true;
    std::this_thread::sleep_for(kTryEvery);
  }
  if (directory_ && !directory_ended_ && TryUnmount(mountpoint_) != Unmounted::kDone) {
    spdlog::warn(
        "{} is still in use: it is taken out of the tree, and what programs have open there fails "
        "from now on",
        mountpoint_);
    DetachLazily(mountpoint_);
  }
  for (auto& [name, place] : places_) {
    if (place.mount != nullptr) leaving_.push_back(std::move(place.mount));
  }
  places_.clear();
}

void AllLinks::BeginStop() {
  for (const auto& mount : leaving_) mount->BeginStop();
}

void AllLinks::StopTaking() {
  watcher_ = std::jthread();
  for (auto& [name, place] : places_) {
    if (place.mount != nullptr) leaving_.push_back(std::move(place.mount));
  }
  for (const auto& mount : leaving_) mount->StopTaking();
}

void AllLinks::SaveStats() {
  for (auto& [name, place] : places_) {
    if (place.mount != nullptr) place.mount->SaveStats();
  }
  for (const auto& mount : leaving_) mount->SaveStats();
}

bool AllLinks::Idle() {
  return std::ranges::all_of(leaving_, [](const auto& mount) { return mount->Idle(); });
}

void AllLinks::LogTotals() const {
  for (const auto& mount : leaving_) mount->LogTotals();
}

}  // namespace forebay
