#include "coordinator/namespace_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/model/limits.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".fbs";
constexpr const char* kDeltaSuffix = ".fbd";

std::string Why(int error) { return std::generic_category().message(error); }

/// All of [offset, offset + length). Blocks.
Result<std::shared_ptr<const Buffer>> ReadAt(int fd, std::uint64_t offset, std::uint32_t length) {
  auto buffer = std::make_shared<Buffer>(length);
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got =
        ::pread(fd, buffer->data() + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Fail(Code::kInternal, fmt::format("a snapshot cannot be read: {}",
                                               got == 0 ? "it is too short" : Why(errno)));
    }
    done += static_cast<std::size_t>(got);
  }
  return buffer;
}

Error NotInside(std::uint64_t offset, std::uint32_t length, std::uint64_t bytes) {
  return Error{Code::kInvalid,
               fmt::format("bytes {}+{} are not in a file of {} bytes", offset, length, bytes)};
}

}  // namespace

PublishedGeneration::~PublishedGeneration() { ::close(fd_); }

Result<std::shared_ptr<const Buffer>> PublishedGeneration::Read(std::uint64_t offset,
                                                                std::uint32_t length) const {
  if (length > kMaxPayloadBytes || offset > bytes_ || length > bytes_ - offset) {
    return Fail(NotInside(offset, length, bytes_));
  }
  return ReadAt(fd_, offset, length);
}

Status PublishedGeneration::Verify(const SnapshotDigest& published) const {
  const std::scoped_lock lock(verifying_);
  if (verified_) return {};
  if (snapshot_->Digest() != published) {
    return Fail(Code::kCorrupt, "it is not the file that was published");
  }
  verified_ = true;
  return {};
}

std::string NamespaceIndex::PathOf(const Uuid& link, std::uint64_t generation) const {
  return fmt::format("{}/{}/{}{}", directory_, link.ToString(), generation, kSuffix);
}

std::string NamespaceIndex::DeltaPathOf(const Uuid& link, std::uint64_t before,
                                        std::uint64_t after) const {
  return fmt::format("{}/{}/{}-{}{}", directory_, link.ToString(), before, after, kDeltaSuffix);
}

Result<std::shared_ptr<const Buffer>> NamespaceIndex::ReadDelta(const Uuid& link,
                                                                std::uint64_t before,
                                                                std::uint64_t after,
                                                                std::uint64_t offset,
                                                                std::uint32_t length) const {
  const std::string path = DeltaPathOf(link, before, after);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return Fail(Code::kNotFound, fmt::format("the difference from generation {} to {} is not kept: "
                                             "fetch the whole listing",
                                             before, after));
  }
  struct stat status{};
  const auto bytes = ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  const bool inside = length <= kMaxPayloadBytes && offset <= bytes && length <= bytes - offset;
  Result<std::shared_ptr<const Buffer>> read = Fail(NotInside(offset, length, bytes));
  if (inside) read = ReadAt(fd, offset, length);
  ::close(fd);
  return read;
}

std::string NamespaceIndex::ListingFolderOf(const Uuid& link) const {
  return fmt::format("{}/{}/listing", directory_, link.ToString());
}

Status NamespaceIndex::BeginBuild(const Uuid& link) {
  std::scoped_lock files(files_mutex_);
  {
    std::scoped_lock lock(mutex_);
    building_.insert(link);
  }
  for (const std::string& path : {directory_, directory_ + "/" + link.ToString()}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return Fail(Code::kInternal, fmt::format("{} cannot be made: {}", path, Why(errno)));
    }
  }
  return {};
}

void NamespaceIndex::EndBuild(const Uuid& link) {
  std::scoped_lock lock(mutex_);
  building_.erase(link);
}

std::set<Uuid> NamespaceIndex::Building() const {
  std::scoped_lock lock(mutex_);
  return building_;
}

Status NamespaceIndex::Open(const Uuid& link, const proto::GenerationInfo& generation,
                            bool just_written) {
  const std::string path = PathOf(link, generation.generation());
  Result<std::shared_ptr<const Snapshot>> snapshot =
      Snapshot::Open(path, SnapshotId{.link = link, .generation = generation.generation()});
  if (!snapshot) return Fail(snapshot.error());
  const std::uint64_t bytes = (*snapshot)->file_bytes();
  if (bytes != generation.snapshot_bytes()) {
    return Fail(Code::kCorrupt, fmt::format("{} is not the file that was published", path));
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return Fail(Code::kInternal, fmt::format("{} cannot be opened: {}", path, Why(errno)));
  }
  auto published = std::make_shared<const PublishedGeneration>(std::move(*snapshot), fd, bytes);
  if (just_written) published->Trust();
  std::scoped_lock lock(mutex_);
  open_.insert_or_assign({link, generation.generation()}, std::move(published));
  return {};
}

Status NamespaceIndex::Verify(const Uuid& link, const proto::GenerationInfo& generation) const {
  const auto published = Find(link, generation.generation());
  if (!published) return Fail(Code::kNotFound, "this generation is not kept any more");
  Status verified = published->Verify(
      SnapshotDigest{.high = generation.digest_high(), .low = generation.digest_low()});
  if (verified) return verified;
  return Fail(verified.error().Within(PathOf(link, generation.generation())));
}

std::shared_ptr<const PublishedGeneration> NamespaceIndex::Find(const Uuid& link,
                                                                std::uint64_t generation) const {
  std::scoped_lock lock(mutex_);
  const auto found = open_.find({link, generation});
  return found == open_.end() ? nullptr : found->second;
}

void NamespaceIndex::Prune(const std::function<Needed()>& needed_now) {
  std::scoped_lock files(files_mutex_);
  // In this order: what ends its build in between is published, and so needed.
  const std::set<Uuid> building = Building();
  const Needed needed = needed_now();
  {
    std::scoped_lock lock(mutex_);
    std::erase_if(open_, [&](const auto& entry) {
      return !needed.files.contains(entry.first) && !building.contains(entry.first.first);
    });
  }
  std::set<fs::path> keep;
  for (const auto& [link, generation] : needed.files) {
    const fs::path file = PathOf(link, generation);
    keep.insert(file.parent_path());
    keep.insert(file);
  }
  keep.insert(needed.deltas.begin(), needed.deltas.end());
  for (const Uuid& link : needed.listings) {
    const fs::path folder = ListingFolderOf(link);
    keep.insert(folder.parent_path());
    keep.insert(folder);
  }
  std::error_code error;
  std::vector<fs::path> drop;
  for (const fs::directory_entry& link : fs::directory_iterator(directory_, error)) {
    if (building.contains(Uuid::Parse(link.path().filename().string()))) continue;
    if (!keep.contains(link.path())) {
      drop.push_back(link.path());
      continue;
    }
    for (const fs::directory_entry& file : fs::directory_iterator(link.path(), error)) {
      if (!keep.contains(file.path())) drop.push_back(file.path());
    }
  }
  for (const fs::path& path : drop) {
    fs::remove_all(path, error);
    if (error) spdlog::warn("{} cannot be deleted: {}", path.string(), error.message());
  }
}

}  // namespace forebay
