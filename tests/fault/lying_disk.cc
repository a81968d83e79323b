// Loaded into a program before the C library: calls that make data durable, or write it, lie. So a
// test of the store is shown a store with a mistake in it, which it has to find
// (disk_mutants_test.py); the store itself has no code for that.
//   FOREBAY_LYING_DISK=no-sync        nothing is made durable
//                      no-data-sync   segments are not
//                      late-data      segments are written a moment after the call has returned,
//                                     and so behind the rows of the index that speak of them
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::chrono::milliseconds kLate{30};

std::string_view Mutant() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in these programs changes the environment
  const char* name = std::getenv("FOREBAY_LYING_DISK");
  return name == nullptr ? "" : name;
}

std::string PathOf(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

bool IsSegment(int fd) { return PathOf(fd).ends_with(".seg"); }

/// True: nothing is done, and the caller is told that it was.
bool Lies(int fd) {
  const std::string_view mutant = Mutant();
  return mutant == "no-sync" || (mutant == "no-data-sync" && IsSegment(fd));
}

/// The C library's own.
template <typename Function>
Function Real(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}

void WriteLate(int fd, const iovec* parts, int count, off_t offset) {
  std::vector<char> bytes;
  for (int i = 0; i < count; ++i) {
    const char* begin = static_cast<const char*>(parts[i].iov_base);
    bytes.insert(bytes.end(), begin, begin + parts[i].iov_len);
  }
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) std::abort();
  std::thread([copy, offset, bytes = std::move(bytes)] {
    std::this_thread::sleep_for(kLate);
    if (::pwrite(copy, bytes.data(), bytes.size(), offset) < 0) std::abort();
    ::close(copy);
  }).detach();
}

}  // namespace

extern "C" {

int fsync(int fd) { return Lies(fd) ? 0 : Real<int (*)(int)>("fsync")(fd); }

int fdatasync(int fd) { return Lies(fd) ? 0 : Real<int (*)(int)>("fdatasync")(fd); }

int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  if (Lies(fd)) return 0;
  return Real<int (*)(int, off64_t, off64_t, unsigned)>("sync_file_range")(fd, offset, bytes,
                                                                           flags);
}

ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  if (Mutant() != "late-data" || !IsSegment(fd))
    return Real<ssize_t (*)(int, const iovec*, int, off_t)>("pwritev")(fd, parts, count, offset);
  WriteLate(fd, parts, count, offset);
  ssize_t written = 0;
  for (int i = 0; i < count; ++i) written += static_cast<ssize_t>(parts[i].iov_len);
  return written;
}
}
