#include "cachenode/store/segment_store.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <string>
#include <thread>
#include <utility>

#include "cachenode/store/read_pin.h"

namespace forebay {
namespace {

using std::chrono::seconds;

/// Segments that are open for reading at most: a read of another one has to open it first, and so
/// leaves its core. Enough for 4 TiB of segments of 256 MiB.
constexpr std::size_t kMostOpenSegments = 16'384;
constexpr std::chrono::milliseconds kLookAtClosing{100};
constexpr seconds kCloseBesideHung{1};  ///< For the disks beside one that hangs.

Status CheckOptions(const BlockStoreOptions& options) {
  if (options.dirs.empty() || options.dirs.size() > BlockIndex::kMaxDisks) {
    return Fail(Code::kInvalid, "a store needs 1 to " + std::to_string(BlockIndex::kMaxDisks) +
                                    " cache directories, not " +
                                    std::to_string(options.dirs.size()));
  }
  if (options.segment_bytes < kRecordAlignment || options.segment_bytes > (1ULL << 40)) {
    return Fail(Code::kInvalid, "a segment size of " + std::to_string(options.segment_bytes) +
                                    " bytes is not between 4 KiB and 1 TiB");
  }
  return {};
}

/// The cluster that all directories belong to, looking only; zero when none belongs to one.
Result<Uuid> ClusterOf(const BlockStoreOptions& options, Uuid cluster) {
  for (const CacheDirOptions& dir : options.dirs) {
    const Result<std::optional<DirectoryIdentity>> found = CacheDirectory::Inspect(dir.path);
    if (!found) return Fail(found.error());
    if (!found->has_value() || (*found)->cluster.IsZero()) continue;
    if (cluster.IsZero()) cluster = (*found)->cluster;
    if ((*found)->cluster != cluster) {
      return Fail(Code::kInvalid, "cache directory " + dir.path + " belongs to cluster " +
                                      (*found)->cluster.ToString() + ", not to " +
                                      cluster.ToString() + "; empty it or choose another");
    }
  }
  return cluster;
}

}  // namespace

std::size_t SegmentDescriptors() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 1;
  return std::clamp<std::size_t>(descriptors.rlim_cur / 2, 1, kMostOpenSegments);
}

Result<std::unique_ptr<BlockStore>> BlockStore::Open(BlockStoreOptions options, Uuid cluster,
                                                     Offload& offload) {
  return SegmentStore::Open(options, cluster, offload);
}

SegmentStore::SegmentStore(const BlockStoreOptions& options, Offload& offload)
    : options_(options),
      offload_(offload),
      parts_(options, SegmentDescriptors()),
      policy_(std::make_unique<IdleLinksFirst>(options.link_in_use_for)) {}

Result<std::unique_ptr<SegmentStore>> SegmentStore::Open(const BlockStoreOptions& options,
                                                         const Uuid& cluster, Offload& offload) {
  if (Status checked = CheckOptions(options); !checked) return Fail(std::move(checked.error()));
  const Result<Uuid> common = ClusterOf(options, cluster);
  if (!common) return Fail(common.error());
  std::unique_ptr<SegmentStore> store(new SegmentStore(options, offload));
  store->SetRules(options.rules);
  for (const CacheDirOptions& dir : options.dirs) {
    const auto number = static_cast<std::uint8_t>(store->disks_.size());
    Result<std::unique_ptr<Disk>> disk = Disk::Open(dir, *common, number, store->parts_);
    if (!disk) return Fail(std::move(disk.error()));
    store->disks_.push_back(std::move(*disk));
  }
  return store;
}

/// The lanes end before what their work refers to.
SegmentStore::~SegmentStore() {
  for (const auto& disk : disks_) {
    disk->reads().Stop();
    disk->work().Stop();
  }
}

// --- Reading

Status SegmentStore::CheckBlock(const BlockId& block) {
  if (block.length > 0 && block.length <= kMaxBlockBytes) return {};
  return Fail(Code::kInvalid, "block " + block.ToString() + " is empty or longer than " +
                                  std::to_string(kMaxBlockBytes) + " bytes");
}

void SegmentStore::NoteRead(const Uuid& link, const BlockId& block, std::string_view job) {
  if (choice_.NoteRead(link, job, block) == ReadHistory::Noted::kNot)
    parts_.counters.reads_not_noted.fetch_add(1, std::memory_order_relaxed);
}

Result<Cells> SegmentStore::Absent(const BlockId& block) const {
  return Fail(Code::kNotFound, "block " + block.ToString() + " is not cached here");
}

Task<Result<Cells>> SegmentStore::Read(BlockId block, BlockRange range) {
  if (Status checked = CheckBlock(block); !checked) co_return Fail(std::move(checked.error()));
  if (range.begin >= range.end || range.end > block.length) {
    co_return Fail(Code::kInvalid, "bytes " + std::to_string(range.begin) + " to " +
                                       std::to_string(range.end) + " do not lie in block " +
                                       block.ToString());
  }
  if (parts_.crashes.IsSetAside(block)) co_return Absent(block);
  const std::optional<BlockIndex::Found> found = parts_.index.Acquire(block, parts_.hour());
  if (!found) co_return Absent(block);
  Disk& disk = *disks_[found->place.disk];
  auto pin = std::make_shared<ReadPin>(parts_.index, disk, *found);
  if (disk.state() == DiskState::kQuarantined) co_return Absent(block);

  // A hit in the page cache is answered on the caller's thread.
  const auto file = parts_.files.Find(found->place.disk, found->place.segment);
  std::unique_ptr<RecordReader> reader;
  if (file) {
    file->link->Touch(parts_.now());
    const HandledBlock handled(block);
    reader = std::make_unique<RecordReader>(disk.Expect(*found, file->link->id), range);
    if (reader->Read(file->fd.get(), true) == RecordReader::Outcome::kOk) {
      parts_.counters.reads_in_place.fetch_add(1, std::memory_order_relaxed);
      co_return reader->Take();
    }
  }
  parts_.counters.reads_elsewhere.fetch_add(1, std::memory_order_relaxed);
  auto work = [this, record = *found, range, reader = std::move(reader),
               pin]() mutable -> Result<DiskRead> {
    return ReadFromDisk(record, range, std::move(reader));
  };
  Result<DiskRead> read = co_await disk.reads().Run(std::move(work));
  if (!read) co_return Fail(std::move(read.error()));
  if (read->outcome == RecordReader::Outcome::kOk) co_return std::move(read->cells);
  // What is wrong twice is dropped, so that the caller fetches it again.
  auto drop = [this, &disk, record = *found, pin = std::move(pin)]() mutable -> Status {
    Drop(record);
    pin.reset();  // its last reader has gone
    disk.FreeReleased();
    return {};
  };
  (void)co_await disk.work().Run(std::move(drop));
  co_return Absent(block);
}

/// What does not match is read once more, from the disk itself.
SegmentStore::DiskRead SegmentStore::ReadFromDisk(const BlockIndex::Found& found, BlockRange range,
                                                  std::unique_ptr<RecordReader> reader) {
  const HandledBlock handled(found.block);
  Disk& disk = *disks_[found.place.disk];
  DiskRead read;
  if (const auto file = disk.OpenSegment(found.place.segment)) {
    if (!reader) {
      file->link->Touch(parts_.now());
      reader = std::make_unique<RecordReader>(disk.Expect(found, file->link->id), range);
    }
    read.outcome = reader->Read(file->fd.get(), false);
    if (read.outcome != RecordReader::Outcome::kOk) {
      reader->DropFromMemory(file->fd.get());
      read.outcome = reader->Read(file->fd.get(), false);
    }
  }
  if (read.outcome == RecordReader::Outcome::kOk) {
    read.cells = reader->Take();
  } else {
    NoteFailure(found, read.outcome);
  }
  return read;
}

/// A record that cannot be read as what it should be.
void SegmentStore::NoteFailure(const BlockIndex::Found& found, RecordReader::Outcome outcome) {
  Disk& disk = *disks_[found.place.disk];
  if (outcome == RecordReader::Outcome::kIoError) {
    disk.ReadFailed();
    return;
  }
  parts_.counters.checksum_failures.fetch_add(1, std::memory_order_relaxed);
  spdlog::warn("{}: block {} in segment {} at {} does not match its checksums; it is dropped",
               disk.Usage().path, found.block.ToString(), found.place.segment,
               found.place.position());
}

void SegmentStore::Drop(const BlockIndex::Found& found) {
  const auto leaving = parts_.index.BeginRemove(found.handle, found.place.disk, found.place.segment,
                                                {.pinned = false});
  if (!leaving.found) return;
  const auto removed = disks_[found.place.disk]->Remove({*leaving.found}, BlockLoss::kDamaged);
  if (!removed) spdlog::warn("a broken block could not be dropped: {}", removed.error().message);
}

bool SegmentStore::Contains(const BlockId& block) const {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  return place && !parts_.crashes.IsSetAside(block) &&
         disks_[place->disk]->state() != DiskState::kQuarantined;
}

BlockHeat SegmentStore::HeatOf(const Uuid& link, const BlockId& block) const {
  if (!Contains(block)) return BlockHeat::kCold;
  const ReadHistory::Value value = parts_.history.ValueOf(link, block);
  if (value.worth > 0)
    return value.worth >= value.mean ? BlockHeat::kWantedMost : BlockHeat::kWanted;
  constexpr Hour kDay = 24;
  const Hour now = parts_.hour();
  const auto used_since = [&](Hour hour) {
    return !parts_.index.LookAt(block, {.pinned = false, .used_since = hour}).found;
  };
  if (used_since(now - std::min<Hour>(now, 1))) return BlockHeat::kUsedThisHour;
  return used_since(now - std::min(now, kDay)) ? BlockHeat::kUsedToday : BlockHeat::kCold;
}

void SegmentStore::Watch(TimePoint now) {
  for (const auto& disk : disks_) disk->Watch(now);
}

// --- Counting and closing

std::unordered_map<Uuid, LinkUsage> SegmentStore::UsageByLink() const {
  std::unordered_map<Uuid, LinkUsage> usage;
  const TimePoint now = parts_.now();
  for (const auto& link : parts_.links.All()) {
    const std::uint64_t blocks = link->blocks.load(std::memory_order_relaxed);
    if (blocks > 0) {
      const std::uint64_t bytes = link->bytes.load(std::memory_order_relaxed);
      const bool whole = link->pinned.load(std::memory_order_relaxed);
      usage[link->id] = {
          .blocks = blocks,
          .bytes = bytes,
          .pinned_bytes = whole ? bytes : link->pinned_bytes.load(std::memory_order_relaxed),
          .in_use = now - link->LastUse() < options_.link_in_use_for};
    }
  }
  return usage;
}

std::vector<DiskUsage> SegmentStore::Disks() const {
  std::vector<DiskUsage> usage;
  usage.reserve(disks_.size());
  for (const auto& disk : disks_) usage.push_back(disk->Usage());
  return usage;
}

std::uint64_t SegmentStore::BlockCount() const { return parts_.index.size(); }

std::unordered_map<Uuid, std::uint64_t> SegmentStore::EvictedBytesByLink() const {
  std::unordered_map<Uuid, std::uint64_t> evicted;
  for (const auto& link : parts_.links.All()) {
    const std::uint64_t bytes = link->evicted_bytes.load(std::memory_order_relaxed);
    if (bytes > 0) evicted[link->id] = bytes;
  }
  return evicted;
}

Status SegmentStore::Close(Deadline deadline) {
  struct Closing {
    std::mutex mutex;
    std::condition_variable one_closed;
    std::size_t open = 0;
    Status status;
  };
  const auto closing = std::make_shared<Closing>();
  closing->open = disks_.size();
  std::vector<std::thread> threads;
  threads.reserve(disks_.size());
  for (const auto& each : disks_) {
    threads.emplace_back([closing, disk = each.get()] {
      // What has been queued is finished first.
      disk->reads().Stop();
      disk->work().Stop();
      Status closed = disk->Close();
      const std::scoped_lock lock(closing->mutex);
      if (!closed && closing->status) closing->status = std::move(closed);
      --closing->open;
      closing->one_closed.notify_all();
    });
  }
  Deadline until = deadline;
  bool hangs = false;
  std::unique_lock lock(closing->mutex);
  while (closing->open > 0 && !until.Expired()) {
    closing->one_closed.wait_for(lock, kLookAtClosing);
    Watch(Clock::now());  // nobody else does any more
    const auto hang = [](const auto& disk) { return disk->Hangs(); };
    // Of a disk that hangs nothing is to be hoped; the others get a moment.
    if (!std::exchange(hangs, std::ranges::any_of(disks_, hang)) && hangs)
      until = until.AtMost(kCloseBesideHung);
  }
  const std::size_t open = closing->open;
  Status closed = std::move(closing->status);
  lock.unlock();
  for (std::thread& thread : threads) {
    if (open == 0) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  if (open == 0) return closed;
  return Fail(Code::kTimeout, std::to_string(open) + " of " + std::to_string(disks_.size()) +
                                  " disks do not answer");
}

}  // namespace forebay
