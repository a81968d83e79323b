#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "cachenode/store/cache_directory.h"
#include "cachenode/store/link_table.h"
#include "common/base/buffer.h"

namespace forebay {

/// A segment opened for reading, and whose it is.
struct SegmentFile {
  FileDescriptor fd;
  std::shared_ptr<LinkState> link;
};

/// The segments that are open for reading: at most `limit`, the longest unused one is closed first
/// (whoever reads from it keeps it open until then). Thread-safe.
class SegmentFiles {
 public:
  explicit SegmentFiles(std::size_t limit) : limit_(limit) {}

  /// Null when it is not open.
  std::shared_ptr<const SegmentFile> Find(std::uint8_t disk, std::uint32_t segment);
  void Insert(std::uint8_t disk, std::uint32_t segment, std::shared_ptr<const SegmentFile> file);
  void Erase(std::uint8_t disk, std::uint32_t segment);

 private:
  struct Open {
    std::uint64_t key;
    std::shared_ptr<const SegmentFile> file;
  };
  static std::uint64_t Key(std::uint8_t disk, std::uint32_t segment) {
    return std::uint64_t{disk} << 32 | segment;
  }

  const std::size_t limit_;
  std::mutex mutex_;
  std::list<Open> by_use_;  // the last used one first
  std::unordered_map<std::uint64_t, std::list<Open>::iterator> open_;
};

// System calls on segments. Each answers 0 or an errno; short transfers are carried on.

/// Writes the header and the data behind it at `position`.
int WriteRecord(int fd, ByteView header, ByteView data, std::uint64_t position);

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
