#include "coordinator/name_uploads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/files.h"
#include "common/model/object_version.h"

namespace forebay {
namespace {

constexpr std::size_t kMaxUploads = 16;

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status Broken(const std::string& path) {
  return Fail(Code::kInternal, path + ": " + std::strerror(errno));
}

Status WriteAt(const std::string& path, std::uint64_t offset, std::string_view data) {
  const OpenFile file(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
  if (file.fd() < 0) return Broken(path);
  while (!data.empty()) {
    const ssize_t written =
        ::pwrite(file.fd(), data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Broken(path);
    data.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Result<std::uint64_t> SyncAndHash(const std::string& path) {
  const OpenFile file(path, O_RDWR | O_NOFOLLOW);
  if (file.fd() < 0 || ::fsync(file.fd()) != 0) return Fail(Broken(path).error());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> part(NameUploads::kMaxPart);
  for (;;) {
    const ssize_t got = ::read(file.fd(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(Broken(path).error());
    if (got == 0) return XXH3_64bits_digest(hash.get());
    XXH3_64bits_update(hash.get(), part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<NameUploads::Upload> NameUploads::Append(const std::string& upload, std::uint64_t offset,
                                                std::string_view data) {
  const std::scoped_lock lock(mutex_);
  if (data.size() > kMaxPart || offset > kMaxBytes - data.size()) {
    return Fail(Code::kInvalid,
                fmt::format("a list of names may have {} bytes at most", kMaxBytes));
  }
  if (upload.empty() && running_.size() >= kMaxUploads) {
    return Fail(Code::kOverloaded, "too many lists of names are on their way: try again later");
  }
  const std::string id = upload.empty() ? "names-" + Uuid::Random().ToString() : upload;
  auto running = running_.find(id);
  if (!upload.empty() && running == running_.end()) {
    return Fail(Code::kNotFound, "the list of names is not there any more: run the command again");
  }
  const std::uint64_t size = running == running_.end() ? 0 : running->second.size;
  if (offset > size) return Fail(Code::kInvalid, "a part of the list of names is missing");
  if (upload.empty()) {
    Status made = MakePrivateFolder(directory_);
    if (!made) return Fail(made.error());
  }
  Status written = WriteAt(PathOf(id), offset, data);
  if (!written) return Fail(written.error());
  Running& now = running_[id];
  now.size = std::max(now.size, offset + data.size());
  now.touched = Clock::now();
  return Upload{.id = id, .size = now.size};
}

Result<NameUploads::File> NameUploads::Complete(const std::string& upload) {
  const std::scoped_lock lock(mutex_);
  const auto running = running_.find(upload);
  if (running == running_.end()) {
    return Fail(Code::kNotFound, "the list of names is not there any more: run the command again");
  }
  running->second.touched = Clock::now();
  Result<std::uint64_t> digest = SyncAndHash(PathOf(upload));
  if (!digest) return Fail(digest.error());
  return File{.name = upload, .digest = *digest};
}

void NameUploads::EndUpload(const std::string& upload) {
  const std::scoped_lock lock(mutex_);
  running_.erase(upload);
}

void NameUploads::Prune(const std::set<std::string>& needed) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(running_, [](const auto& entry) {
    return Clock::now() - entry.second.touched >= kForgetAfter;
  });
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    if (!needed.contains(name) && !running_.contains(name)) old.push_back(entry.path());
  }
  for (const std::filesystem::path& path : old) std::filesystem::remove(path, error);
}

}  // namespace forebay
