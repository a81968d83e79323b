#include "coordinator/state_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

std::string Why(int error) { return std::generic_category().message(error); }

/// The directory exists, is private if we made it, and can be written.
Status PrepareDirectory(const std::string& directory) {
  if (const Status above = MakeFoldersAbove(directory); !above) {
    return Fail(Code::kInvalid, fmt::format("the state directory {} cannot be made: {}", directory,
                                            above.error().message));
  }
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) {
    return Fail(Code::kInvalid,
                fmt::format("the state directory {} cannot be made: {}", directory, Why(errno)));
  }
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(Code::kInvalid, fmt::format("the state directory {} is no directory", directory));
  }
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return Fail(Code::kInvalid,
                fmt::format("the state directory {} cannot be written: {}", directory, Why(errno)));
  }
  // An empty directory was made for us; one that holds other things keeps its mode.
  std::error_code error;
  if (!made && fs::is_empty(directory, error)) (void)::chmod(directory.c_str(), 0700);
  return {};
}

Result<int> LockDirectory(const std::string& directory) {
  const std::string path = directory + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return Fail(Code::kInvalid, fmt::format("{} cannot be opened: {}", path, Why(errno)));
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int why = errno;
  ::close(fd);
  if (why != EWOULDBLOCK) {
    return Fail(Code::kInvalid, fmt::format("{} cannot be locked: {}", path, Why(why)));
  }
  return Fail(Code::kInvalid,
              fmt::format("the state directory {} is in use by another coordinator: stop that one, "
                          "or name another --state-dir",
                          directory));
}

}  // namespace

Result<StateDirectory> StateDirectory::Open(const std::string& path) {
  Status prepared = PrepareDirectory(path);
  if (!prepared) return Fail(prepared.error());
  Result<int> lock = LockDirectory(path);
  if (!lock) return Fail(lock.error());
  return StateDirectory(*lock);
}

StateDirectory::~StateDirectory() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

StateDirectory::StateDirectory(StateDirectory&& other) noexcept
    : lock_fd_(std::exchange(other.lock_fd_, -1)) {}

}  // namespace forebay
