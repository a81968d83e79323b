#include "tests/bench/store/rig.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <random>

#include "cachenode/store/cache_directory.h"
#include "common/base/deadline.h"
#include "common/model/limits.h"

namespace forebay::store_bench {
namespace {

namespace fs = std::filesystem;

/// As a coroutine's arguments, so that nothing is captured.
Task<void> Work(std::atomic<std::uint64_t>& next, std::uint64_t count,
                const std::function<Task<void>(std::uint64_t)>& one, std::latch& done) {
  for (std::uint64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) co_await one(i);
  done.count_down();
}

void ForEachFile(const std::string& folder, const std::function<void(const fs::path&)>& visit) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) visit(entry.path());
  }
}

}  // namespace

Rig::Rig(BlockStoreOptions options, std::size_t loops) : loops_("bench", loops), at_loops_(loops) {
  store_ = Must(BlockStore::Open(std::move(options),
                                 Uuid::Parse("c0000000-0000-4000-8000-000000000001"), offload_),
                "opening the store");
  loops_.Start();
}

Rig::~Rig() {
  loops_.Stop();
  offload_.Stop();
}

void Rig::ForAll(std::uint64_t count, std::size_t at_once,
                 const std::function<Task<void>(std::uint64_t)>& one) {
  std::atomic<std::uint64_t> next{0};
  std::latch done(static_cast<std::ptrdiff_t>(at_loops_ * at_once));
  for (std::size_t i = 0; i < at_loops_ * at_once; ++i) {
    Spawn(loops_.At(i), Work(next, count, one, done));
  }
  done.wait();
}

void Rig::Close() {
  Must(store_->Close(Deadline::After(std::chrono::seconds(30))), "closing the store");
}

Samples::Samples(std::uint32_t length) : length_(length) {
  std::mt19937_64 random(length);
  for (std::size_t i = 0; i < kContents; ++i) {
    auto buffer = std::make_shared<Buffer>(length);
    for (std::size_t at = 0; at < length; at += 8) {
      const std::uint64_t word = random();
      std::memcpy(buffer->data() + at, &word, std::min<std::size_t>(8, length - at));
    }
    std::vector<std::uint64_t>& checksums = checksums_.emplace_back();
    for (std::size_t at = 0; at < length; at += kCellBytes) {
      checksums.push_back(
          CellChecksum(buffer->data() + at, std::min<std::size_t>(kCellBytes, length - at)));
    }
    bytes_.push_back(std::move(buffer));
  }
}

BlockId Samples::Block(std::uint64_t number) const {
  return {{number, number * 0x9E3779B97F4A7C15ULL + 1}, 0, length_};
}

const std::shared_ptr<const Buffer>& Samples::Bytes(std::uint64_t number) const {
  return bytes_[number % kContents];
}

const std::vector<std::uint64_t>& Samples::Checksums(std::uint64_t number) const {
  return checksums_[number % kContents];
}

BlockStoreOptions StoreIn(const std::string& folder) {
  BlockStoreOptions options;
  options.dirs = {{folder, 0}};
  return options;
}

Uuid BenchLink() { return Uuid::Parse("10000000-0000-4000-8000-000000000001"); }

std::vector<std::uint64_t> Shuffled(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = i;
  std::ranges::shuffle(order, std::mt19937_64(seed));
  return order;
}

void DropPages(const std::string& folder) {
  SyncAll(folder);
  ForEachFile(folder, [](const fs::path& path) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  });
}

void SyncAll(const std::string& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  MustSystem(fd && ::syncfs(fd.get()) == 0, "syncing the file system");
}

std::uint64_t AllocatedBelow(const std::string& folder) {
  std::uint64_t bytes = 0;
  ForEachFile(folder, [&bytes](const fs::path& path) {
    struct stat found;
    MustSystem(::stat(path.c_str(), &found) == 0, "asking for a file's size");
    bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
  });
  return bytes;
}

void Remove(const std::string& folder) { fs::remove_all(folder); }

double Seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double CpuSeconds() {
  rusage used{};
  MustSystem(::getrusage(RUSAGE_SELF, &used) == 0, "asking for CPU time");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::uint64_t BytesWritten() {
  std::ifstream io("/proc/self/io");
  std::uint64_t written = 0;
  std::uint64_t cancelled = 0;
  for (std::string name; io >> name;) {
    std::uint64_t value = 0;
    io >> value;
    if (name == "write_bytes:") written = value;
    if (name == "cancelled_write_bytes:") cancelled = value;
  }
  return written - std::min(written, cancelled);
}

std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void Die(const std::string& what) {
  std::fprintf(stderr, "store_bench: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // threads of a store may be at work
}

void MustSystem(bool good, const char* what) {
  if (!good) Die(std::string(what) + ": " + ErrnoText(errno));
}

}  // namespace forebay::store_bench
