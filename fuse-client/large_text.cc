#include "fuse-client/large_text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/files.h"

namespace forebay {

namespace {

/// Written at once.
constexpr std::size_t kPieceBytes = 1 << 20;

/// A new file without a name.
class NamelessFile {
 public:
  NamelessFile(const std::string& folder, const std::string& called) {
    const std::string name = TemporaryNameFor(folder + "/" + called);
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

std::unexpected<Error> LargeText::NoRoom() const {
  return Fail(Code::kInternal, "the " + name_ + " cannot be written below " + folder_ + ": " +
                                   std::generic_category().message(errno) + "; make room there");
}

Result<Slice> LargeText::Text() {
  std::scoped_lock lock(mutex_);
  if (const std::shared_ptr<const Slice> known = last_.lock()) return Slice{known, known->bytes};
  Result<Slice> fresh = Write();
  if (!fresh) return fresh;
  const auto shared = std::make_shared<const Slice>(std::move(*fresh));
  last_ = shared;
  return Slice{shared, shared->bytes};
}

Result<Slice> LargeText::Write() const {
  NamelessFile file(folder_, name_);
  if (!file.good()) return NoRoom();
  std::string piece;
  bool written = true;
  const Status status = write_([&](std::string_view part) {
    piece.append(part);
    if (piece.size() < kPieceBytes) return true;
    written = file.Append(piece);
    piece.clear();
    return written;
  });
  if (!status) return Fail(status.error());
  if (!written || !file.Append(piece)) return NoRoom();
  if (file.size() == 0) return Slice{};
  std::shared_ptr<const void> mapped = file.Map();
  if (mapped == nullptr) return NoRoom();
  const ByteView bytes(static_cast<const std::byte*>(mapped.get()), file.size());
  return Slice{std::move(mapped), bytes};
}

}  // namespace forebay
