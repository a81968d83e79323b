#include "fuse-client/inherited.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "common/wire/messages.h"
#include "common/wire/rpc.h"

namespace forebay {

namespace {

constexpr std::string_view kFirstMessage = "init";
constexpr std::string_view kGeneration = "generation/";
constexpr std::string_view kAnnounced = "announced";
constexpr std::string_view kCopyCounts = "copies";
// Until it had names "stats" held a plain structure, which no two releases need have alike.
constexpr std::string_view kStats = "counters";
constexpr std::string_view kKernelInodes = "kernel-inodes";

std::uint64_t NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string GenerationKey(std::uint32_t connection, std::uint64_t generation) {
  // The slash ends the number, so that no key is the beginning of another one's.
  return ConnectionKey(connection).append(kGeneration) + std::to_string(generation) + "/";
}

void TakeGeneration(const Kept& kept, InheritedMount& out) {
  MountedNamespace found;
  found.cluster = UuidFromBytes(out.mount.cluster());
  found.cluster_dir = out.mount.cluster_dir();
  found.link_blocks = out.mount.link_blocks();
  Result<std::shared_ptr<const Snapshot>> snapshot =
      Fail(Code::kCorrupt, "its description cannot be read");
  if (ParseMessage(kept.value, found.link)) {
    snapshot = Snapshot::OpenFile(
        kept.fd.get(), "of \"" + found.link.spec().name() + "\"",
        SnapshotId{UuidFromBytes(found.link.spec().id()), found.link.generation().generation()});
  }
  if (!snapshot) {
    spdlog::error("a listing of {} is lost: {}", out.mount.mountpoint(), snapshot.error().message);
    return;
  }
  found.snapshot = std::move(*snapshot);
  out.generations.push_back(std::move(found));
}

void TakePart(std::string_view name, Kept kept, InheritedMount& out) {
  if (name == kFirstMessage) {
    out.first_message = std::move(kept.value);
  } else if (name == kAnnounced) {
    out.announced = NumberIn(kept.value);
  } else if (name == kStats) {
    out.stats = std::move(kept.value);
  } else if (name == kCopyCounts) {
    out.copy_counts = std::move(kept.value);
  } else if (name.starts_with(kOpenedKeys)) {
    TakeKeptOpen(name, kept, out.opened);
  } else if (name == kKernelInodes) {
    out.kernel_inodes = std::move(kept.fd);
  } else if (name.starts_with(kOrderKeys)) {
    TakeKeptOrder(name, kept, out.orders);
  } else if (name.starts_with(kGeneration)) {
    TakeGeneration(kept, out);
  }
}

}  // namespace

std::vector<InheritedMount> TakeInheritedMounts(Keeper& keeper) {
  KeptEntries entries = keeper.TakeInherited(kConnections);
  std::vector<InheritedMount> mounts;
  // A mount's own entry comes before its others: its key is the beginning of theirs.
  std::string mine;
  for (auto& [key, kept] : entries) {
    if (const std::uint32_t id = ConnectionOfKey(key)) {
      InheritedMount next;
      next.connection = id;
      if (!ParseMessage(kept.value, next.mount)) {
        spdlog::error("what is left of the mount with number {} cannot be read; it ends", id);
        DropMount(keeper, id);
        mine.clear();
        continue;
      }
      next.fd = std::move(kept.fd);
      mounts.push_back(std::move(next));
      mine = key;
    } else if (!mine.empty() && key.starts_with(mine)) {
      TakePart(std::string_view(key).substr(mine.size()), std::move(kept), mounts.back());
    }
  }
  for (InheritedMount& mount : mounts) {
    std::ranges::sort(mount.generations, {}, [](const MountedNamespace& found) {
      return found.link.generation().generation();
    });
  }
  return mounts;
}

void KeepMount(const Keeper& keeper, std::uint32_t connection, const proto::KeptMount& mount,
               int fd) {
  keeper.Keep(ConnectionKey(connection), mount.SerializeAsString(), fd);
}

void KeepFirstMessage(const Keeper& keeper, std::uint32_t connection, std::string_view message) {
  keeper.Keep(ConnectionKey(connection).append(kFirstMessage), message);
}

void KeepGeneration(const Keeper& keeper, std::uint32_t connection, const MountedNamespace& found) {
  if (!keeper.supervised()) return;
  const std::uint64_t generation = found.link.generation().generation();
  const std::string key = GenerationKey(connection, generation);
  const std::string value = found.link.SerializeAsString();
  if (found.file) return keeper.Keep(key, value, found.file->get());
  const std::string file = FolderOf(found) + "/" + SnapshotName(generation);
  const OwnedFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    // Another mount of the link has a newer one already.
    spdlog::warn("{} has gone: if this process dies, files of generation {} become stale", file,
                 generation);
    return;
  }
  keeper.Keep(key, value, fd.get());
}

void DropGeneration(const Keeper& keeper, std::uint32_t connection, std::uint64_t generation) {
  keeper.Drop(GenerationKey(connection, generation));
}

void KeepAnnounced(const Keeper& keeper, std::uint32_t connection, std::uint64_t generation) {
  keeper.Keep(ConnectionKey(connection).append(kAnnounced), std::to_string(generation));
}

void KeepStats(const Keeper& keeper, std::uint32_t connection, std::string_view stats) {
  keeper.Keep(ConnectionKey(connection).append(kStats), stats);
}

void KeepCopyCounts(const Keeper& keeper, std::uint32_t connection, std::string_view counts) {
  keeper.Keep(ConnectionKey(connection).append(kCopyCounts), counts);
}

void KeepKernelInodes(const Keeper& keeper, std::uint32_t connection, const KernelInodes& inodes) {
  if (inodes.file() < 0) return;
  keeper.Keep(ConnectionKey(connection).append(kKernelInodes), "", inodes.file());
}

void DropMount(const Keeper& keeper, std::uint32_t connection) {
  keeper.Drop(ConnectionKey(connection));
}

FuseConnection ConnectionOf(const Keeper& keeper, std::uint32_t id, OwnedFd fd,
                            std::string first_message, bool large, bool passthrough) {
  return FuseConnection{
      std::move(fd),
      id,
      std::move(first_message),
      large,
      passthrough,
      [&keeper, id](std::string_view message) { KeepFirstMessage(keeper, id, message); }};
}

}  // namespace forebay
