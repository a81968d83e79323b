#include "coordinator/generation_copier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/files.h"
#include "common/wire/client_pool.h"
#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// What a coordinator hands out at once.
constexpr std::uint32_t kPieceBytes = 4 << 20;
/// From a disk, and over a slow line.
constexpr std::chrono::seconds kPiecePatience{30};

/// A new file that goes unless it was committed.
class Unfinished {
 public:
  explicit Unfinished(const std::string& path)
      : name_(TemporaryNameFor(path)),
        fd_(::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~Unfinished() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(name_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& name() const { return name_; }
  bool is_open() const { return fd_ >= 0; }

  Status Write(ByteView bytes, std::uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return Fail(Code::kInternal, fmt::format("{} cannot be written: {}", name_,
                                                 std::generic_category().message(errno)));
      }
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

 private:
  const std::string name_;
  const int fd_;
};

/// The file is what was published. Blocks.
Status Check(const std::string& path, const Uuid& link, const proto::GenerationInfo& generation) {
  Result<std::shared_ptr<const Snapshot>> snapshot =
      Snapshot::Open(path, SnapshotId{.link = link, .generation = generation.generation()});
  if (!snapshot) return Fail(snapshot.error());
  const SnapshotDigest published{.high = generation.digest_high(), .low = generation.digest_low()};
  if ((*snapshot)->file_bytes() == generation.snapshot_bytes() &&
      (*snapshot)->Digest() == published) {
    return {};
  }
  return Fail(Code::kCorrupt, path + " is not the file that was published");
}

}  // namespace

Task<Status> GenerationCopier::TakeOwn(Uuid link, proto::GenerationInfo generation) {
  auto take = [this, link, generation]() -> Status {
    Status whole = Check(index_.PathOf(link, generation.generation()), link, generation);
    if (!whole) return whole;
    return index_.Open(link, generation, true);
  };
  Status taken = co_await offload_.Run(std::move(take));
  co_return taken;
}

Task<Status> GenerationCopier::Copy(std::string coordinator, Uuid link,
                                    proto::GenerationInfo generation) {
  auto begin = [this, link] { return index_.BeginBuild(link); };
  Status copied = co_await offload_.Run(std::move(begin));
  if (copied) copied = co_await Fetch(std::move(coordinator), link, std::move(generation));
  index_.EndBuild(link);
  co_return copied;
}

Task<Status> GenerationCopier::Fetch(std::string coordinator, Uuid link,
                                     proto::GenerationInfo generation) {
  const std::string path = index_.PathOf(link, generation.generation());
  auto file = std::make_shared<const Unfinished>(path);
  if (!file->is_open()) {
    co_return Fail(Code::kInternal, fmt::format("{} cannot be made: {}", file->name(),
                                                std::generic_category().message(errno)));
  }
  const std::uint64_t total = generation.snapshot_bytes();
  for (std::uint64_t offset = 0; offset < total;) {
    proto::ReadSnapshotRequest request;
    request.set_link(BytesOf(link));
    request.set_generation(generation.generation());
    request.set_offset(offset);
    request.set_length(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kPieceBytes, total - offset)));
    Result<RpcReply> reply = co_await pool_.Call(coordinator, Method::kReadSnapshot, request,
                                                 Deadline::After(kPiecePatience));
    if (!reply) co_return Fail(reply.error());
    const std::size_t size = reply->payload.bytes.size();
    if (size == 0 || size > request.length()) {
      co_return Fail(Code::kCorrupt, "the coordinator at " + coordinator +
                                         " sent a piece of a listing with a wrong length");
    }
    auto write = [file, payload = std::move(reply->payload), offset] {
      return file->Write(payload.bytes, offset);
    };
    Status written = co_await offload_.Run(std::move(write));
    if (!written) co_return written;
    offset += size;
  }
  auto commit = [this, file, path, link, generation = std::move(generation)]() -> Status {
    Status whole = Check(file->name(), link, generation);
    if (whole) whole = CommitFile(file->name(), path);
    if (!whole) return whole;
    return index_.Open(link, generation, true);
  };
  Status committed = co_await offload_.Run(std::move(commit));
  co_return committed;
}

}  // namespace forebay
