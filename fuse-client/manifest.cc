#include "fuse-client/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "common/base/files.h"

namespace forebay {

namespace {

/// Written at once.
constexpr std::size_t kPieceBytes = 1 << 20;

std::unexpected<Error> NoRoom(const std::string& folder) {
  return Fail(Code::kInternal, "the manifest cannot be written below " + folder + ": " +
                                   std::generic_category().message(errno) +
                                   "; make room there, or read the listing with `forebay ls`");
}

/// A new file without a name.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& folder) {
    const std::string name = TemporaryNameFor(folder + "/manifest");
    fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ >= 0) ::unlink(name.c_str());
  }
  ~NamelessFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  bool good() const { return fd_ >= 0; }
  std::size_t size() const { return size_; }

  bool Append(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      size_ += static_cast<std::size_t>(n);
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// Null when the system refuses.
  std::shared_ptr<const void> Map() const {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    if (mapped == MAP_FAILED) return nullptr;
    return {mapped,
            [size = size_](const void* bytes) { ::munmap(const_cast<void*>(bytes), size); }};
  }

 private:
  int fd_ = -1;
  std::size_t size_ = 0;
};

}  // namespace

std::string ManifestLine(std::string_view path, std::uint64_t size) {
  std::string line = std::to_string(size);
  line.push_back('\t');
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else {
      line.push_back(c);
    }
  }
  line.push_back('\n');
  return line;
}

Result<Slice> Manifest::Text() {
  std::scoped_lock lock(mutex_);
  if (const std::shared_ptr<const Slice> known = last_.lock()) return Slice{known, known->bytes};
  Result<Slice> fresh = Write();
  if (!fresh) return fresh;
  const auto shared = std::make_shared<const Slice>(std::move(*fresh));
  last_ = shared;
  return Slice{shared, shared->bytes};
}

Result<Slice> Manifest::Write() const {
  const std::optional<SnapshotDirectory> root = snapshot_->DirectoryAt(directory_);
  NamelessFile file(folder_);
  if (!root || !file.good()) return NoRoom(folder_);
  const std::size_t prefix = root->path.empty() ? 0 : root->path.size() + 1;
  std::string piece;
  bool written = true;
  const Status walked =
      snapshot_->ForEachFile(directory_, [&](const SnapshotRow& row, std::string_view path) {
        path.remove_prefix(std::min(prefix, path.size()));
        piece += ManifestLine(path, row.size);
        if (piece.size() < kPieceBytes) return true;
        written = file.Append(piece);
        piece.clear();
        return written;
      });
  if (!walked) return Fail(walked.error());
  if (!written || !file.Append(piece)) return NoRoom(folder_);
  if (file.size() == 0) return Slice{};
  std::shared_ptr<const void> mapped = file.Map();
  if (mapped == nullptr) return NoRoom(folder_);
  const ByteView bytes(static_cast<const std::byte*>(mapped.get()), file.size());
  return Slice{std::move(mapped), bytes};
}

}  // namespace forebay
