#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "cachenode/store/disk.h"
#include "cachenode/store/recovery.h"
#include "common/base/failpoint.h"
#include "common/base/units.h"

// How a disk comes back: its capacity, its records, and the space that no record owns.
namespace forebay {
namespace {

/// Less does not hold one block of the default size, the index and its log.
constexpr std::uint64_t kMinCapacity = 8ULL << 20;
constexpr std::size_t kRemoveAtOnce = 256;

std::uint64_t Aligned(std::uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

/// What a file system may count beside the records themselves: a block of extents for each 100
/// holes (ext4 puts 340 into one) and two more.
std::uint64_t MetadataAllowance(std::size_t records) { return 4096 * (2 + records / 100); }

}  // namespace

/// In bytes; 0 is a part of the file system. kInvalid: there is no room for so much, or it is too
/// little.
Result<std::uint64_t> Disk::CheckedCapacity(std::uint64_t wanted) const {
  const Result<CacheDirectory::Space> space = directory_.FileSystemSpace();
  if (!space) return Fail(space.error());
  const std::uint64_t capacity = wanted == 0 ? space->size / 10 * 8 : wanted;
  if (capacity > space->size) {
    return Fail(Code::kInvalid, "cache directory " + path_ + " may use " + HumanBytes(capacity) +
                                    " and its file system has " + HumanBytes(space->size) +
                                    ": mount its disk, or choose a smaller size");
  }
  if (capacity < kMinCapacity) {
    return Fail(Code::kInvalid, "cache directory " + path_ + " may use " + HumanBytes(capacity) +
                                    "; at least " + HumanBytes(kMinCapacity) + " are needed");
  }
  return capacity;
}

Status Disk::SetCapacity() {
  const Result<std::uint64_t> capacity = CheckedCapacity(capacity_.load());
  if (!capacity) return Fail(capacity.error());
  capacity_ = announced_ = *capacity;
  // RocksDB's own lower bound is 64 KiB; more than 16 MiB gains nothing for rows of 40 bytes.
  write_buffer_ = std::clamp<std::uint64_t>(*capacity / 512, 64ULL << 10, 16ULL << 20);
  return {};
}

Status Disk::Recover() {
  Result<std::vector<SegmentOnDisk>> segments = directory_.ListSegments();
  if (!segments) return Fail(std::move(segments.error()));
  // One number in the folders of two links: somebody copied files. Neither can be told from the
  // other by an index row, so only the first is looked at.
  const auto copies = std::ranges::unique(*segments, {}, &SegmentOnDisk::number);
  segments->erase(copies.begin(), copies.end());

  std::unordered_map<std::uint32_t, std::vector<Kept>> kept;
  const RecoverySink sink{
      .keep =
          [&](const IndexedRecord& record) {
            if (parts_.crashes.IsSetAside(record.block)) return false;
            const HandledBlock handled(record.block);
            const auto handle = parts_.index.Insert(
                record.block, {number_, record.segment, record.unit}, parts_.hour());
            if (handle) kept[record.segment].push_back({record.unit, record.block.length, *handle});
            return handle.has_value();
          },
      .start_again =
          [&] {
            parts_.index.ForgetDisk(number_);
            kept.clear();
          }};
  Result<RecoveredIndex> recovered = RecoverIndex(directory_, *segments, write_buffer_, sink);
  if (!recovered) {
    parts_.index.ForgetDisk(number_);
    return Fail(std::move(recovered.error()));
  }
  db_ = std::move(recovered->db);
  next_segment_ = recovered->next_segment;
  if (Status noted = db_->SetNextSegment(next_segment_); !noted) {
    return Fail(Code::kInvalid, "cache directory " + path_ + " cannot be used: " +
                                    noted.error().message + "; make room or make it writable");
  }
  parts_.counters.recovered_blocks.fetch_add(recovered->kept, std::memory_order_relaxed);
  parts_.counters.dropped_at_recovery.fetch_add(recovered->dropped, std::memory_order_relaxed);
  for (const SegmentOnDisk& segment : *segments) Adopt(segment, kept[segment.number]);
  if (recovered->kept > 0 || recovered->dropped > 0) {
    spdlog::info("{}: {} blocks recovered{}, {} dropped", path_, recovered->kept,
                 recovered->rebuilt ? " from their segments" : "", recovered->dropped);
  }
  scrub_from_ = db_->ScrubPlace().value_or(0);
  if (Status pins = RecoverPins(); !pins) {
    spdlog::warn("{}: which blocks are pinned is not known until the coordinator says so: {}",
                 path_, pins.error().message);
  }
  MeasureIndex();
  return ShrinkToCapacity();
}

/// A segment from before: it takes no new records, and what no row of the index owns (a record that
/// was never committed, or removed and not yet punched) is given back.
void Disk::Adopt(const SegmentOnDisk& on_disk, std::vector<Kept>& records) {
  failpoint("store.in_recovery");
  if (records.empty()) {
    if (!directory_.UnlinkSegment(on_disk.link, on_disk.number)) {
      CountWriteError(errno);
      used_.fetch_add(on_disk.allocated, std::memory_order_relaxed);
    }
    return;
  }
  std::ranges::sort(records, {}, &Kept::unit);
  auto segment = std::make_shared<Segment>();
  segment->number = on_disk.number;
  segment->link = parts_.links.Get(on_disk.link);
  segment->tail = Aligned(on_disk.size);
  segment->sealed = true;
  segment->blocks.reserve(records.size());
  std::uint64_t block_bytes = 0;
  for (const Kept& record : records) {
    segment->blocks.push_back(record.handle);
    segment->live_bytes += RecordDiskBytes(record.length);
    block_bytes += record.length;
  }
  segment->live_blocks = static_cast<std::uint32_t>(records.size());
  segment->link->blocks.fetch_add(records.size(), std::memory_order_relaxed);
  segment->link->bytes.fetch_add(block_bytes, std::memory_order_relaxed);
  if (on_disk.allocated > segment->live_bytes + MetadataAllowance(records.size()) &&
      PunchGaps(on_disk, records) > 0) {
    segment->slack_bytes = on_disk.allocated - segment->live_bytes;
  }
  used_.fetch_add(segment->live_bytes + segment->slack_bytes, std::memory_order_relaxed);
  const std::scoped_lock lock(mutex_);
  auto& numbers = by_link_[on_disk.link];
  numbers.insert(std::ranges::upper_bound(numbers, on_disk.number), on_disk.number);
  segments_.emplace(on_disk.number, std::move(segment));
}

std::uint64_t Disk::PunchGaps(const SegmentOnDisk& on_disk, const std::vector<Kept>& records) {
  const FileDescriptor fd = directory_.OpenSegment(on_disk.link, on_disk.number, O_WRONLY);
  std::uint64_t left = 0;
  std::uint64_t end = 0;
  const auto punch_to = [&](std::uint64_t begin) {
    if (begin <= end) return;
    const int error = fd ? PunchHole(fd.get(), end, begin - end) : EBADF;
    if (error != 0) left += begin - end;
  };
  for (const Kept& record : records) {
    const std::uint64_t begin = std::uint64_t{record.unit} * kRecordAlignment;
    punch_to(begin);
    end = std::max(end, begin + RecordDiskBytes(record.length));
  }
  punch_to(Aligned(on_disk.size));
  return left;
}

/// The configuration may allow less than before: of the lowest priority and there the oldest
/// segments go first, and what is pinned only when nothing else is left: the capacity is a hard
/// bound.
Status Disk::ShrinkToCapacity() {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, segment] : segments_) numbers.push_back(number);
  std::ranges::sort(numbers, {}, [this](std::uint32_t number) {
    return std::pair(segments_.at(number)->link->priority.load(std::memory_order_relaxed), number);
  });
  for (const bool pinned_too : {false, true}) {
    if (used_.load(std::memory_order_relaxed) <= Limit()) break;
    if (pinned_too) {
      spdlog::warn("{} may use {} bytes, less than what is pinned there: pinned blocks are evicted",
                   path_, capacity_.load());
    }
    for (const std::uint32_t number : numbers) {
      if (Status shrunk = ShrinkSegment(number, pinned_too); !shrunk) return shrunk;
    }
  }
  return {};
}

Status Disk::ShrinkSegment(std::uint32_t number, bool pinned_too) {
  const std::shared_ptr<LinkState> link = LinkOf(number);
  if (!link || (link->pinned.load(std::memory_order_relaxed) && !pinned_too)) return {};
  const std::vector<BlockHandle> blocks = segments_.at(number)->blocks;
  for (std::size_t next = 0; next < blocks.size();) {
    std::vector<BlockIndex::Found> oldest;
    std::uint64_t bytes = 0;
    while (next < blocks.size() && oldest.size() < kRemoveAtOnce &&
           used_.load(std::memory_order_relaxed) > Limit() + bytes) {
      const auto removal = parts_.index.BeginRemove(blocks[next++], number_, number,
                                                    BlockIndex::Spare{.pinned = !pinned_too});
      if (!removal.found) continue;
      bytes += RecordDiskBytes(removal.found->block.length);
      oldest.push_back(*removal.found);
    }
    if (oldest.empty()) break;
    const Result<Removal> removed = Remove(oldest, BlockLoss::kReplaced);
    if (!removed) return Fail(Code::kInvalid, removed.error().message);
    parts_.counters.evicted_blocks.fetch_add(removed->evicted.blocks, std::memory_order_relaxed);
    parts_.counters.evicted_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
    link->evicted_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  }
  return {};
}

}  // namespace forebay
