#include "cachenode/store/disk.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/failpoint.h"

namespace forebay {
namespace {

/// Dirty pages that a segment gathers before they are written back; at most twice as much is dirty.
constexpr std::uint64_t kWriteBackBytes = 8ULL << 20;

/// Enough to keep the queue of an NVMe disk busy; what waits beyond is bounded.
constexpr std::size_t kReadThreads = 8;
constexpr std::size_t kWorkThreads = 4;
constexpr std::size_t kLaneQueue = 4096;

}  // namespace

Disk::Disk(const CacheDirOptions& options, CacheDirectory directory, std::uint8_t number,
           StoreParts& parts)
    : path_(options.path),
      number_(number),
      directory_(std::move(directory)),
      seed_(RecordSeed(directory_.identity().directory)),
      parts_(parts),
      capacity_(options.capacity_bytes),
      reads_("disk" + std::to_string(number) + "-read", kReadThreads, kLaneQueue),
      work_("disk" + std::to_string(number) + "-work", kWorkThreads, kLaneQueue) {}

Result<std::unique_ptr<Disk>> Disk::Open(const CacheDirOptions& options, const Uuid& cluster,
                                         std::uint8_t number, StoreParts& parts) {
  Result<CacheDirectory> directory = CacheDirectory::Open(options.path, cluster);
  if (!directory) return Fail(std::move(directory.error()));
  // Before its blocks are read; the book is kept on the first disk.
  if (number == 0) parts.crashes.Open(options.path + "/crashes");
  std::unique_ptr<Disk> disk(new Disk(options, std::move(*directory), number, parts));
  if (Status sized = disk->SetCapacity(); !sized) return Fail(std::move(sized.error()));
  if (Status recovered = disk->Recover(); !recovered) return Fail(std::move(recovered.error()));
  return disk;
}

Result<Disk::Place> Disk::Reserve(const Arrival& arrival) {
  const std::shared_ptr<LinkState>& link = arrival.block->link;
  Place place;
  place.bytes = RecordDiskBytes(arrival.block->block.length);
  Unsqueeze();
  for (;;) {
    if (state() != DiskState::kOk) return Fail(Code::kInternal, path_ + " takes no more blocks");
    std::shared_ptr<Segment> full;
    {
      const std::scoped_lock lock(mutex_);
      const std::uint64_t own = arrival.claim ? arrival.claim->bytes() : 0;
      if (!HasRoom(place.bytes - own)) return Fail(Code::kOverloaded, path_ + " is full");
      const auto open = open_.find(link->id);
      const bool is_open = open != open_.end();
      // A record that is longer than a segment has one to itself.
      if (is_open && open->second->tail > 0 &&
          open->second->tail + place.bytes > parts_.segment_bytes) {
        full = open->second;
        full->sealed = true;
        ++full->writers;  // so that it is closed below, outside of the lock, or by its last writer
        open_.erase(open);
      } else if (is_open) {
        place.segment = open->second;
        place.position = place.segment->tail;
        place.segment->tail += place.bytes;
        ++place.segment->writers;
        used_.fetch_add(place.bytes, std::memory_order_relaxed);
        if (arrival.claim) arrival.claim->End();
      }
    }
    if (full) FinishWriter(full);
    if (place.segment) return place;
    if (const int error = OpenForWriting(link))
      return Fail(std::move(WriteFailed(error, "creating a segment").error()));
  }
}

/// Makes the link's open segment unless it has one; an errno when that fails.
int Disk::OpenForWriting(const std::shared_ptr<LinkState>& link) {
  const std::scoped_lock making(making_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    if (open_.contains(link->id)) return 0;
  }
  auto segment = std::make_shared<Segment>();
  segment->number = next_segment_;
  segment->link = link;
  segment->writer = directory_.CreateSegment(link->id, segment->number);
  const int error = errno;
  // A number that was tried once is never tried again: the file may be there.
  ++next_segment_;
  failpoint("store.after_segment_create");
  if (!segment->writer) return error;
  if (Status noted = db_->SetNextSegment(next_segment_); !noted)
    return noted.error().code == Code::kOverloaded ? ENOSPC : EIO;
  const std::scoped_lock lock(mutex_);
  segments_.emplace(segment->number, segment);
  by_link_[link->id].push_back(segment->number);
  open_.emplace(link->id, std::move(segment));
  return 0;
}

/// The last writer of a sealed segment closes it.
void Disk::FinishWriter(const std::shared_ptr<Segment>& segment) {
  bool closes = false;
  bool empty = false;
  {
    const std::scoped_lock lock(mutex_);
    closes = --segment->writers == 0 && segment->sealed;
    empty = closes && !segment->InUse();
    if (empty) ForgetSegment(*segment);
  }
  if (empty) {
    Drop(segment);
  } else if (closes) {
    Seal(segment);
  }
}

/// Data first, then the index that speaks of it.
void Disk::Seal(const std::shared_ptr<Segment>& segment) {
  if (::fdatasync(segment->writer.get()) != 0 || failpoint("store.sync_error")) {
    // The kernel may have dropped the pages and will say "done" next time: it counts once and for
    // all. What was lost is found by its checksums.
    sync_failed_.store(true, std::memory_order_relaxed);
    CountWriteError(EIO);
  }
  segment->writer = FileDescriptor();
  {
    const std::scoped_lock lock(mutex_);
    segment->blocks.shrink_to_fit();
  }
  if (Status synced = db_->Sync(); !synced) {
    sync_failed_.store(true, std::memory_order_relaxed);
    CountWriteError(EIO);
  }
}

void Disk::WriteBackBehind(const Place& place) {
  std::uint64_t previous = 0;
  std::uint64_t begin = 0;
  const std::uint64_t end = place.position + place.bytes;
  bool due = false;
  {
    const std::scoped_lock lock(mutex_);
    Segment& segment = *place.segment;
    due = end >= segment.kicked + kWriteBackBytes;
    if (due) {
      previous = std::exchange(segment.awaited, segment.kicked);
      begin = std::exchange(segment.kicked, end);
    }
  }
  if (due) {
    const int error = WriteBack(place.segment->writer.get(), previous, begin, end);
    if (error == EIO) CountWriteError(error);
  }
  if (written_since_measured_.fetch_add(place.bytes, std::memory_order_relaxed) > kWriteBackBytes) {
    MeasureIndex();
  }
}

ExpectedRecord Disk::Expect(const BlockIndex::Found& found, const Uuid& link) const {
  return {.cluster = directory_.identity().cluster,
          .link = link,
          .block = found.block,
          .segment = found.place.segment,
          .position = found.place.position(),
          .seed = seed_};
}

std::shared_ptr<const SegmentFile> Disk::OpenSegment(std::uint32_t number) {
  if (auto open = parts_.files.Find(number_, number)) return open;
  std::shared_ptr<LinkState> link;
  {
    const std::scoped_lock lock(mutex_);
    const auto segment = segments_.find(number);
    if (segment == segments_.end()) return nullptr;
    link = segment->second->link;
  }
  FileDescriptor fd = directory_.OpenSegment(link->id, number, O_RDONLY);
  if (!fd) return nullptr;
  auto file = std::make_shared<const SegmentFile>(std::move(fd), std::move(link));
  parts_.files.Insert(number_, number, file);
  return file;
}

Status Disk::Close() {
  std::unordered_map<Uuid, std::shared_ptr<Segment>> open;
  {
    const std::scoped_lock lock(mutex_);
    open.swap(open_);
  }
  FreeReleased();
  for (const auto& [link, segment] : open) Seal(segment);
  const Status flushed = db_->Flush();
  db_.reset();
  if (!flushed) return Fail(Code::kInternal, "closing " + path_ + ": " + flushed.error().message);
  if (sync_failed_.load(std::memory_order_relaxed)) {
    return Fail(Code::kInternal, path_ + " failed to make its blocks durable; look at the disk");
  }
  return {};
}

}  // namespace forebay
