#include "fuse-client/shard_view.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/snapshot/shard_snapshot.h"
#include "fuse-client/link_sizes.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

/// Of files that exist by this name while they are built. One that is older was left by a process
/// that was killed.
const std::string kName = "shard";
constexpr std::chrono::hours kBuiltWithin{1};

void RemoveLeftovers(const std::string& folder) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(kName + ".")) continue;
    std::error_code gone;
    const auto written = entry.last_write_time(gone);
    if (!gone && now - written > kBuiltWithin) fs::remove(entry.path(), gone);
  }
}

Result<MountedNamespace> Build(MountedNamespace found, std::uint32_t directory, const Shard& shard,
                               const std::string& path) {
  const ShardDeal deal = found.link.spec().set().empty() ? ShardDeal::kEqually : ShardDeal::kByName;
  const Result<FinishedSnapshot> built = BuildShard(found.snapshot, directory, shard, deal, path);
  if (!built) return Fail(built.error());
  auto file = std::make_shared<const OwnedFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  ::unlink(path.c_str());
  if (!*file) {
    return Fail(Code::kInternal,
                "cannot open " + path + ": " + std::generic_category().message(error));
  }
  Result<std::shared_ptr<const Snapshot>> part =
      Snapshot::OpenFile(file->get(), path, found.snapshot->id());
  if (!part) return Fail(part.error());
  found.link_blocks = SizesOf(*found.snapshot).blocks;
  found.snapshot = std::move(*part);
  found.file = std::move(file);
  return found;
}

}  // namespace

Result<MountedNamespace> TakeShard(Result<MountedNamespace> found, const Shard& shard,
                                   std::string_view sub_path) {
  if (!found || shard.is_all()) return found;
  const std::optional<SnapshotRow> root = found->snapshot->Resolve(sub_path);
  if (!root || !root->is_directory()) return found;
  const std::string folder = FolderOf(*found);
  const std::string name = found->link.spec().name();
  RemoveLeftovers(folder);
  Result<MountedNamespace> part =
      Build(std::move(*found), root->directory, shard, TemporaryNameFor(folder + "/" + kName));
  if (!part) return Fail(part.error().Within("shard " + shard.ToString() + " of \"" + name + "\""));
  spdlog::info("shard {} of \"{}\" has {} of {} objects", shard.ToString(), name,
               part->snapshot->totals().objects, part->link.generation().objects());
  return part;
}

}  // namespace forebay
