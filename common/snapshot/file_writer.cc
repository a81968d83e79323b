#include "common/snapshot/file_writer.h"

#define XXH_STATIC_LINKING_ONLY  // the state inside an object of ours
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/model/block_id.h"
#include "common/model/limits.h"

namespace forebay {
namespace {

constexpr std::size_t kBufferBytes = 16 * kCellBytes;

std::string ErrnoText() { return std::generic_category().message(errno); }

// A rename is on the disk only when its directory is.
bool SyncDirectoryOf(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced;
}

}  // namespace

struct SnapshotFileWriter::Digester {
  Digester() {
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
  }
  XXH3_state_t state;
};

Result<std::unique_ptr<SnapshotFileWriter>> SnapshotFileWriter::Create(std::string path) {
  std::string temporary = path + ".tmp";
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return Fail(Code::kInternal, "cannot create the snapshot " + temporary + ": " + ErrnoText());
  }
  return std::unique_ptr<SnapshotFileWriter>(
      new SnapshotFileWriter(std::move(path), std::move(temporary), fd));
}

SnapshotFileWriter::SnapshotFileWriter(std::string path, std::string temporary, int fd)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(fd),
      digester_(std::make_unique<Digester>()) {
  buffer_.reserve(kBufferBytes);
}

SnapshotFileWriter::~SnapshotFileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void SnapshotFileWriter::Append(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  offset_ += count;
  while (count > 0) {
    const std::size_t piece = std::min(count, kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), from, from + piece);
    from += piece;
    count -= piece;
    if (buffer_.size() == kBufferBytes) Flush();
  }
}

void SnapshotFileWriter::PadTo(std::uint64_t offset) {
  static constexpr std::array<std::byte, kSnapshotAlignment> kZero{};
  while (offset_ < offset) {
    Append(kZero.data(), std::min<std::uint64_t>(kZero.size(), offset - offset_));
  }
}

void SnapshotFileWriter::AppendCellChecksums() {
  Flush();
  hashing_cells_ = false;
  Append(cells_.data(), cells_.size() * sizeof(std::uint64_t));
}

Result<SnapshotDigest> SnapshotFileWriter::Commit() {
  Flush();
  if (status_ && ::fsync(fd_) != 0) NoteError("sync");
  if (::close(std::exchange(fd_, -1)) != 0) NoteError("close");
  if (!status_) return Fail(status_.error());
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    NoteError("rename");
    return Fail(status_.error());
  }
  committed_ = true;
  if (!SyncDirectoryOf(path_)) {
    NoteError("sync the directory of");
    return Fail(status_.error());
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(&digester_->state);
  return SnapshotDigest{.high = digest.high64, .low = digest.low64};
}

void SnapshotFileWriter::Flush() {
  if (hashing_cells_) {
    for (std::size_t at = 0; at < buffer_.size(); at += kCellBytes) {
      cells_.push_back(
          CellChecksum(buffer_.data() + at, std::min(kCellBytes, buffer_.size() - at)));
    }
  }
  XXH3_128bits_update(&digester_->state, buffer_.data(), buffer_.size());
  const std::byte* from = buffer_.data();
  std::size_t left = status_ ? buffer_.size() : 0;
  while (left > 0) {
    const ssize_t written = ::write(fd_, from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      NoteError("write");
      break;
    }
    from += written;
    left -= static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void SnapshotFileWriter::NoteError(const char* what) {
  if (!status_) return;
  status_ = Fail(Code::kInternal, std::string("cannot ") + what + " the snapshot " + temporary_ +
                                      ": " + ErrnoText());
}

}  // namespace forebay
