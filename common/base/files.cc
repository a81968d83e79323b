#include "common/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace forebay {

namespace {

/// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<Error> SystemError(std::string_view doing, const std::string& path, int number) {
  const Code code = number == ENOENT ? Code::kNotFound : Code::kInternal;
  return Fail(code,
              std::string(doing) + " " + path + ": " + std::generic_category().message(number));
}

/// With this very mode, whatever the umask says; one that is there keeps its own.
Status MakeFolder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST) return {};
    return Fail(Code::kInternal,
                "cannot make the folder " + path + ": " + std::generic_category().message(errno));
  }
  const Descriptor made(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (made.get() >= 0) ::fchmod(made.get(), mode);
  return {};
}

/// The parent of "a/b/" is "a/b" to std::filesystem: the folder itself.
std::string WithoutSlashesAtEnd(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

Result<std::string> ReadWholeFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemError("opening", path, errno);
  std::string bytes;
  char piece[16 * 1024];
  for (;;) {
    const ssize_t n = ::read(file.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("reading", path, errno);
    if (n == 0) return bytes;
    bytes.append(piece, static_cast<std::size_t>(n));
  }
}

std::string TemporaryNameFor(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(count.fetch_add(1)) +
         ".tmp";
}

Status CommitFile(const std::string& temporary, const std::string& path) {
  {
    const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return SystemError("opening", temporary, errno);
    if (::fsync(file.get()) != 0) return SystemError("syncing", temporary, errno);
  }
  Status renamed = RenameFile(temporary, path);
  if (!renamed) return renamed;
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  const std::string folder = above.empty() ? "." : above.string();
  const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(parent.get()) != 0) return SystemError("syncing", folder, errno);
  return {};
}

Status RenameFile(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  return SystemError("renaming", path, errno);
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = TemporaryNameFor(path);
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) {
      // A missing folder is the host's fault, not an answer.
      return Fail(Code::kInternal,
                  "creating " + temporary + ": " + std::generic_category().message(errno));
    }
    while (!bytes.empty()) {
      const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int number = errno;
        ::unlink(temporary.c_str());
        return SystemError("writing", temporary, number);
      }
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  Status committed = CommitFile(temporary, path);
  if (!committed) ::unlink(temporary.c_str());
  return committed;
}

Status MakeFoldersAbove(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = WithoutSlashesAtEnd(path);
  const std::filesystem::path folder = whole.parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  Status made = MakeFoldersAbove(folder.string());
  if (made) made = MakeFolder(folder.string(), 0755);
  return made;
}

Status MakePrivateFolder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  Status made = MakeFoldersAbove(path);
  if (made) made = MakeFolder(path, 0700);
  return made;
}

}  // namespace forebay
