#include "cachenode/store/segment_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cachenode/store/segment_format.h"
#include "common/base/failpoint.h"

namespace forebay {
namespace {

/// The tail of a record is shorter.
constexpr std::array<std::byte, kRecordAlignment> kZeros{};

/// Drops the first `done` bytes of the parts; answers the parts that are left.
std::span<iovec> Advance(std::span<iovec> parts, std::size_t done) {
  while (!parts.empty() && done >= parts.front().iov_len) {
    done -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (!parts.empty()) {
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + done;
    parts.front().iov_len -= done;
  }
  return parts;
}

/// iovec is for reading and writing; nothing is written through these.
iovec Part(ByteView bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

int WriteExactly(int fd, std::span<iovec> parts, std::uint64_t position) {
  while (!parts.empty()) {
    const ssize_t n =
        ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(position));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    position += static_cast<std::uint64_t>(n);
    parts = Advance(parts, static_cast<std::size_t>(n));
  }
  return 0;
}

/// For a test that waits inside of a record.
int WriteInTwo(int fd, const Record& record, std::uint64_t position) {
  const std::size_t half = record.data.size() / 2;
  std::array<iovec, 2> first = {Part(record.header), Part(record.data.first(half))};
  if (const int error = WriteExactly(fd, first, position)) return error;
  if (failpoint("store.in_record")) return EIO;
  std::array<iovec, 1> second = {Part(record.data.subspan(half))};
  return WriteExactly(fd, second, position + record.header.size() + half);
}

}  // namespace

/// What a pass of the gate, or the lock, keeps from being taken away.
SegmentFiles::Open* SegmentFiles::Seek(std::uint64_t key) const {
  Open* open = chains_[ChainOf(key)].load(std::memory_order_acquire);
  while (open != nullptr && open->key != key) open = open->next.load(std::memory_order_acquire);
  return open;
}

std::shared_ptr<const SegmentFile> SegmentFiles::Find(std::uint8_t disk,
                                                      std::uint32_t segment) const {
  const ReadersGate::Pass pass(gate_);
  Open* const open = Seek(Key(disk, segment));
  if (open == nullptr) return nullptr;
  // Written only when it changes: all who read from the segment share this line.
  if (!open->used.load(std::memory_order_relaxed))
    open->used.store(true, std::memory_order_relaxed);
  return open->file;
}

void SegmentFiles::Insert(std::uint8_t disk, std::uint32_t segment,
                          std::shared_ptr<const SegmentFile> file) {
  const std::uint64_t key = Key(disk, segment);
  std::unique_ptr<Open> closed;  // outside of the lock: closing an unlinked file frees its space
  const std::scoped_lock lock(mutex_);
  if (Seek(key) != nullptr) return;
  if (open_.size() >= limit_) closed = TakeOut(Victim());
  std::atomic<Open*>& chain = chains_[ChainOf(key)];
  auto open = std::make_unique<Open>();
  open->key = key;
  open->file = std::move(file);
  open->next.store(chain.load(std::memory_order_relaxed), std::memory_order_relaxed);
  Open* const added = open.get();
  added->place = open_.insert(open_.end(), std::move(open));
  chain.store(added, std::memory_order_release);
}

void SegmentFiles::Erase(std::uint8_t disk, std::uint32_t segment) {
  std::unique_ptr<Open> closed;
  const std::scoped_lock lock(mutex_);
  if (Open* const open = Seek(Key(disk, segment))) closed = TakeOut(open);
}

/// The oldest one that was not used since it was passed over last.
SegmentFiles::Open* SegmentFiles::Victim() {
  while (open_.front()->used.exchange(false, std::memory_order_relaxed))
    open_.splice(open_.end(), open_, open_.begin());
  return open_.front().get();
}

/// Nobody finds it any more, and nobody who found it is still looking at it.
std::unique_ptr<SegmentFiles::Open> SegmentFiles::TakeOut(Open* open) {
  std::unique_ptr<Open> taken = std::move(*open->place);
  open_.erase(taken->place);
  std::atomic<Open*>* link = &chains_[ChainOf(taken->key)];
  while (link->load(std::memory_order_relaxed) != taken.get())
    link = &link->load(std::memory_order_relaxed)->next;
  link->store(taken->next.load(std::memory_order_relaxed), std::memory_order_release);
  gate_.WaitForReaders();
  return taken;
}

int WriteRecords(int fd, std::span<const Record> records, std::uint64_t position) {
  if (failpoint("store.write_io_error")) return EIO;
  if (failpoint("store.write_no_space")) return ENOSPC;
  if (failpoint("store.write_read_only")) return EROFS;
  std::vector<iovec> parts;
  parts.reserve(3 * records.size());
  for (const Record& record : records) {
    if (failpoint_armed("store.in_record")) {
      if (const int error = WriteInTwo(fd, record, position)) return error;
      position += record.bytes;
      continue;
    }
    parts.push_back(Part(record.header));
    parts.push_back(Part(record.data));
    const std::uint64_t tail = record.bytes - record.header.size() - record.data.size();
    if (&record != &records.back() && tail > 0) parts.push_back(Part(ByteView(kZeros).first(tail)));
  }
  return WriteExactly(fd, parts, position);
}

int ReadExactly(int fd, std::span<iovec> parts, std::uint64_t position, bool nowait) {
  if (failpoint("store.read_io_error")) return EIO;
  while (!parts.empty()) {
    const ssize_t n = ::preadv2(fd, parts.data(), static_cast<int>(parts.size()),
                                static_cast<off_t>(position), nowait ? RWF_NOWAIT : 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return nowait && (errno == EOPNOTSUPP || errno == EINVAL) ? EAGAIN : errno;
    if (n == 0) return ENODATA;
    position += static_cast<std::uint64_t>(n);
    parts = Advance(parts, static_cast<std::size_t>(n));
    // A short answer means that the next page is not in memory.
    if (nowait && !parts.empty()) return EAGAIN;
  }
  return 0;
}

int ReadDirectly(int fd, std::byte* to, std::uint64_t bytes, std::uint64_t position,
                 std::uint64_t needed) {
  if (failpoint("store.read_io_error")) return EIO;
  for (std::uint64_t done = 0; done < needed;) {
    const ssize_t n = ::pread(fd, to + done, bytes - done, static_cast<off_t>(position + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENODATA;
    done += static_cast<std::uint64_t>(n);
    // Only the end of the file lies elsewhere than at a multiple.
    if (done < needed && done % kRecordAlignment != 0) return ENODATA;
  }
  return 0;
}

int PunchHole(int fd, std::uint64_t position, std::uint64_t bytes) {
  while (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(position),
                     static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int WriteBack(int fd, std::uint64_t previous, std::uint64_t begin, std::uint64_t end) {
  const auto sync = [fd](std::uint64_t from, std::uint64_t to, unsigned flags) {
    if (to <= from) return 0;
    return ::sync_file_range(fd, static_cast<off64_t>(from), static_cast<off64_t>(to - from), flags)
               ? errno
               : 0;
  };
  if (const int error = sync(begin, end, SYNC_FILE_RANGE_WRITE)) return error;
  return sync(previous, begin,
              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

}  // namespace forebay
