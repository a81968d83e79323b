#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "cachenode/store/cache_directory.h"
#include "cachenode/store/link_table.h"
#include "common/base/buffer.h"
#include "common/base/readers_gate.h"

namespace forebay {

/// A segment opened for reading, and whose it is.
struct SegmentFile {
  FileDescriptor fd;
  std::shared_ptr<LinkState> link;
};

/// The segments that are open for reading: at most `limit`; of those that nobody has used for two
/// rounds the oldest one is closed first (whoever reads from it keeps it open until then).
/// Thread-safe. Find takes no lock; Insert and Erase may wait for finds that are under way.
class SegmentFiles {
 public:
  /// `limit` is not 0.
  explicit SegmentFiles(std::size_t limit) : limit_(limit) {}

  /// Null when it is not open.
  std::shared_ptr<const SegmentFile> Find(std::uint8_t disk, std::uint32_t segment) const;
  void Insert(std::uint8_t disk, std::uint32_t segment, std::shared_ptr<const SegmentFile> file);
  void Erase(std::uint8_t disk, std::uint32_t segment);

 private:
  struct Open;
  using ByAge = std::list<std::unique_ptr<Open>>;  // the oldest first
  struct Open {
    std::uint64_t key = 0;
    ByAge::iterator place;  ///< Its own.
    std::shared_ptr<const SegmentFile> file;
    mutable std::atomic<bool> used{false};  ///< Since the last round of Victim.
    std::atomic<Open*> next{nullptr};       ///< Of the same chain.
  };
  static std::uint64_t Key(std::uint8_t disk, std::uint32_t segment) {
    return std::uint64_t{disk} << 32 | segment;
  }
  /// Numbers rise one by one, so that they spread by themselves.
  static std::size_t ChainOf(std::uint64_t key) { return (key ^ key >> 32) % kChains; }

  // Under the lock.
  Open* Seek(std::uint64_t key) const;
  Open* Victim();
  std::unique_ptr<Open> TakeOut(Open* open);

  static constexpr std::size_t kChains = 4096;  ///< 32 KiB; up to four files in each.

  const std::size_t limit_;
  ReadersGate gate_;
  std::array<std::atomic<Open*>, kChains> chains_{};
  std::mutex mutex_;
  ByAge open_;  // guarded by mutex_
};

// System calls on segments. Each answers 0 or an errno; short transfers are carried on.

struct Record {
  ByteView header;
  ByteView data;
  std::uint64_t bytes = 0;  ///< On disk: RecordDiskBytes.
};
/// Writes records one behind the other, from `position` on. Some may be there after an error.
int WriteRecords(int fd, std::span<const Record> records, std::uint64_t position);

/// Fills all of `parts` from `position` on. ENODATA: the file ends before; EAGAIN with `nowait`:
/// not all of it is in the page cache, or this file system cannot say.
int ReadExactly(int fd, std::span<iovec> parts, std::uint64_t position, bool nowait);

/// Reads at least `needed` bytes at `position` into `to`, which has room for `bytes`, from a file
/// that is open for direct reads: address, position and `bytes` are multiples of kRecordAlignment.
/// ENODATA: the file ends before.
int ReadDirectly(int fd, std::byte* to, std::uint64_t bytes, std::uint64_t position,
                 std::uint64_t needed);

/// Gives the space back. EOPNOTSUPP: the file system cannot.
int PunchHole(int fd, std::uint64_t position, std::uint64_t bytes);

/// Begins to write [begin, end) to the disk, and waits for [previous, begin): so a segment has a
/// bounded amount of dirty pages, and its writer is as fast as its disk.
int WriteBack(int fd, std::uint64_t previous, std::uint64_t begin, std::uint64_t end);

}  // namespace forebay
