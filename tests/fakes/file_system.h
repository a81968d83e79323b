#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>

namespace forebay::fakes {

// What a folder's file system can do, asked of it and not of our programs: a test that skips where
// it cannot must not skip where we are broken.

/// It says whether bytes are in the page cache (preadv2(2), RWF_NOWAIT).
inline bool KnowsNoWait(const std::string& folder) {
  const std::string path = folder + "/.probe";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  std::array<char, 1> byte{};
  iovec part{byte.data(), byte.size()};
  const bool knows = ::pwrite(fd, byte.data(), byte.size(), 0) == 1 &&
                     (::preadv2(fd, &part, 1, 0, RWF_NOWAIT) == 1 || errno == EAGAIN);
  ::close(fd);
  ::unlink(path.c_str());
  return knows;
}

/// How many of the file's pages are in the page cache, those that are on their way included;
/// nothing where the kernel does not say (cachestat(2), Linux 6.5).
inline std::optional<std::uint64_t> PagesInMemory(int fd) {
  constexpr long kCachestat = 451;
  const std::array<std::uint64_t, 2> all{};
  std::array<std::uint64_t, 5> found{};
  if (::syscall(kCachestat, fd, all.data(), found.data(), 0) != 0) return std::nullopt;
  return found[0];
}

/// Its files have no other place than the page cache.
inline bool IsInMemory(const std::string& folder) {
  struct statfs file_system{};
  return ::statfs(folder.c_str(), &file_system) == 0 && file_system.f_type == TMPFS_MAGIC;
}

}  // namespace forebay::fakes
