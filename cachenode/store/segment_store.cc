#include "cachenode/store/segment_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <set>
#include <string>
#include <utility>

namespace forebay {
namespace {

using std::chrono::seconds;

constexpr std::size_t kOpenSegments = 512;  ///< Half of the usual soft limit of descriptors.
constexpr seconds kAdmissionPatience{60};   ///< For another admission of the same block.

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

Status CheckBlock(const BlockId& block) {
  if (block.length > 0 && block.length <= kMaxBlockBytes) return {};
  return Fail(Code::kInvalid, "block " + block.ToString() + " is empty or longer than " +
                                  std::to_string(kMaxBlockBytes) + " bytes");
}

}  // namespace

/// Holds a block while it is read.
class SegmentStore::ReadPin {
 public:
  ReadPin(SegmentStore& store, const BlockIndex::Found& found) : store_(store), found_(found) {}
  ReadPin(const ReadPin&) = delete;
  ReadPin& operator=(const ReadPin&) = delete;
  ~ReadPin() { Release(); }

  /// True: the block was removed meanwhile and its disk has space to free.
  bool Release() {
    if (std::exchange(released_, true) || !store_.parts_.index.Release(found_.handle)) return false;
    store_.disks_[found_.place.disk]->Release(found_.place, found_.block.length);
    return true;
  }

 private:
  SegmentStore& store_;
  const BlockIndex::Found found_;
  bool released_ = false;
};

Result<std::unique_ptr<BlockStore>> BlockStore::Open(BlockStoreOptions options, Uuid cluster,
                                                     Offload& offload) {
  return SegmentStore::Open(options, cluster, offload);
}

SegmentStore::SegmentStore(const BlockStoreOptions& options, Offload& offload)
    : options_(options),
      offload_(offload),
      parts_(options, kOpenSegments),
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

// --- Reading

void SegmentStore::NoteRead(const Uuid& link, const BlockId& block, std::string_view job) {
  choice_.NoteRead(link, job, block);
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
  const std::optional<BlockIndex::Found> found = parts_.index.Acquire(block, parts_.hour());
  if (!found) co_return Absent(block);
  ReadPin pin(*this, *found);
  Disk& disk = *disks_[found->place.disk];
  if (disk.state() == DiskState::kQuarantined) co_return Absent(block);

  // A hit in the page cache is answered on the caller's thread.
  const auto file = parts_.files.Find(found->place.disk, found->place.segment);
  std::unique_ptr<RecordReader> reader;
  Result<Cells> cells;
  bool hit = false;
  if (file) {
    file->link->Touch(parts_.now());
    reader = std::make_unique<RecordReader>(disk.Expect(*found, file->link->id), range);
    hit = reader->Read(file->fd.get(), true) == RecordReader::Outcome::kOk;
  }
  if (hit) {
    cells = reader->Take();
  } else {
    auto work = [this, record = *found, range, reader = std::move(reader)]() mutable {
      return ReadFromDisk(record, range, std::move(reader));
    };
    cells = co_await offload_.Run(std::move(work));
  }
  if (pin.Release()) {
    auto free = [&disk]() -> Status {
      disk.FreeReleased();
      return {};
    };
    co_await offload_.Run(std::move(free));
  }
  co_return cells;
}

/// Where blocking is allowed. What is wrong twice, the second time from the disk itself, is dropped
/// and counted, so that the caller fetches it again.
Result<Cells> SegmentStore::ReadFromDisk(const BlockIndex::Found& found, BlockRange range,
                                         std::unique_ptr<RecordReader> reader) {
  Disk& disk = *disks_[found.place.disk];
  RecordReader::Outcome outcome = RecordReader::Outcome::kIoError;
  if (const auto file = disk.OpenSegment(found.place.segment)) {
    if (!reader) {
      file->link->Touch(parts_.now());
      reader = std::make_unique<RecordReader>(disk.Expect(found, file->link->id), range);
    }
    outcome = reader->Read(file->fd.get(), false);
    if (outcome != RecordReader::Outcome::kOk) {
      reader->DropFromMemory(file->fd.get());
      outcome = reader->Read(file->fd.get(), false);
    }
  }
  if (outcome == RecordReader::Outcome::kOk) return reader->Take();
  Drop(found, outcome);
  return Absent(found.block);
}

/// A record that cannot be read as what it should be.
void SegmentStore::Drop(const BlockIndex::Found& found, RecordReader::Outcome outcome) {
  Disk& disk = *disks_[found.place.disk];
  if (outcome == RecordReader::Outcome::kIoError) {
    parts_.counters.read_errors.fetch_add(1, std::memory_order_relaxed);
    disk.IoFailed();
  } else {
    parts_.counters.checksum_failures.fetch_add(1, std::memory_order_relaxed);
    spdlog::warn("{}: block {} in segment {} at {} does not match its checksums; it is dropped",
                 disk.Usage().path, found.block.ToString(), found.place.segment,
                 found.place.position());
  }
  const auto leaving = parts_.index.BeginRemove(found.handle, found.place.disk, found.place.segment,
                                                {.pinned = false});
  if (!leaving.found) return;
  if (const Result<Removed> removed = RemoveAll({*leaving.found}, BlockLoss::kDamaged); !removed) {
    spdlog::warn("a broken block could not be dropped: {}", removed.error().message);
  }
}

bool SegmentStore::Contains(const BlockId& block) const {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  return place && disks_[place->disk]->state() != DiskState::kQuarantined;
}

// --- Admitting

Task<Status> SegmentStore::Admit(Uuid link, BlockId block, Slice data,
                                 std::vector<std::uint64_t> checksums, std::string path,
                                 Room room) {
  if (Status checked = CheckBlock(block); !checked) co_return checked;
  if (data.bytes.size() != block.length || checksums.size() != block.cells()) {
    co_return Fail(Code::kInvalid, "block " + block.ToString() + " came with " +
                                       std::to_string(data.bytes.size()) + " bytes and " +
                                       std::to_string(checksums.size()) + " checksums");
  }
  if (Contains(block)) co_return Status();
  const auto seat = admissions_.Join(block, [] { return std::make_shared<Flight>(); });
  const std::shared_ptr<Flight> flight = seat.flight;
  if (!seat.leads) {
    const auto executor = co_await asio::this_coro::executor;
    const Deadline deadline = Deadline::After(kAdmissionPatience);
    for (;;) {
      Notifier::Ticket ticket = flight->done.Enlist(executor);
      {
        const std::scoped_lock lock(flight->mutex);
        if (flight->landed) co_return *flight->landed;
      }
      const bool told = co_await ticket.Wait(deadline);
      if (!told) co_return Fail(Code::kTimeout, "another admission of the block takes too long");
    }
  }
  // Lands on every way out, so that nobody waits for a flight that was cancelled.
  struct Landing {
    SegmentStore& store;
    const BlockId block;
    const std::shared_ptr<Flight> flight;
    Status status = Fail(Code::kTimeout, "the admission was given up");
    ~Landing() {
      {
        const std::scoped_lock lock(flight->mutex);
        flight->landed = status;
      }
      store.admissions_.Leave(block, flight);
      flight->done.NotifyAll();
    }
  };
  Landing landing{*this, block, flight};
  NewBlock admitted{link, block, std::move(data), std::move(checksums), std::move(path), room};
  auto work = [this, admitted = std::move(admitted)] { return AdmitNow(admitted); };
  landing.status = co_await offload_.Run(std::move(work));
  if (!landing.status && landing.status.error().code == Code::kOverloaded) {
    parts_.counters.refused_blocks.fetch_add(1, std::memory_order_relaxed);
  }
  co_return landing.status;
}

Status SegmentStore::AdmitNow(const NewBlock& block) {
  const std::shared_ptr<LinkState> link = parts_.links.Get(block.link);
  link->Touch(parts_.now());
  ForgetOnLostDisk(block.block);
  if (Contains(block.block)) return {};
  if (parts_.index.Occupied(block.block)) {
    return Fail(Code::kOverloaded, "block " + block.block.ToString() + " is just being evicted");
  }
  for (const auto& disk : disks_) disk->FreeReleased();
  const bool path_pinned = link->PathIsPinned(block.path);
  Status status = AdmitWithinQuota(block, link, path_pinned);
  if (!status) return status;
  parts_.counters.admitted_blocks.fetch_add(1, std::memory_order_relaxed);
  parts_.counters.admitted_bytes.fetch_add(block.block.length, std::memory_order_relaxed);
  // A pin that came while the block was written: its take-over has looked before, or looks later.
  if (!path_pinned && link->PathIsPinned(block.path)) return PinBlocks({block.block});
  return {};
}

Status SegmentStore::AdmitWithinQuota(const NewBlock& block, const std::shared_ptr<LinkState>& link,
                                      bool path_pinned) {
  const bool pinned = path_pinned || link->pinned.load(std::memory_order_relaxed);
  const bool may_evict = block.room == Room::kMayEvict;
  const bool held =
      may_evict ? HoldRoom(*link, block.block, pinned) : link->HoldRoom(block.block.length);
  if (!held)
    return Fail(Code::kOverloaded, "link " + link->id.ToString() + " is at its quota here");
  Status status;
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    status = AdmitWithoutEvicting(block, link, path_pinned);
    if (status || status.error().code != Code::kOverloaded) break;
    if (!may_evict || !MakeRoom({link->id, link->LastUse(), pinned}, block.block)) break;
  }
  link->ReturnRoom(block.block.length);
  return status;
}

/// The disks that take blocks, the one with the largest free share first.
std::vector<Disk*> SegmentStore::WritableDisks() const {
  std::vector<std::pair<double, Disk*>> by_share;
  for (const auto& disk : disks_) {
    if (disk->state() == DiskState::kOk) by_share.emplace_back(disk->FreeShare(), disk.get());
  }
  std::ranges::sort(by_share, std::ranges::greater(), &std::pair<double, Disk*>::first);
  std::vector<Disk*> disks;
  disks.reserve(by_share.size());
  for (const auto& [share, disk] : by_share) disks.push_back(disk);
  return disks;
}

Status SegmentStore::AdmitWithoutEvicting(const NewBlock& block,
                                          const std::shared_ptr<LinkState>& link,
                                          bool path_pinned) {
  Status refused = Fail(Code::kInternal, "no cache directory takes blocks any more");
  for (Disk* disk : WritableDisks()) {
    const Result<Disk::Place> place = disk->Reserve(link, block.block.length);
    Status stored = place ? disk->Write(*place, block.block, block.data.bytes, block.checksums)
                          : Status(Fail(place.error()));
    if (stored) stored = disk->Commit(*place, block.block, parts_.hour(), path_pinned);
    if (stored) return {};
    // "Full" is worth another attempt, so it outweighs a disk that failed.
    if (refused.error().code != Code::kOverloaded) refused = std::move(stored);
  }
  return refused;
}

/// A block on a quarantined disk counts as absent; its entry makes way for the new one.
void SegmentStore::ForgetOnLostDisk(const BlockId& block) {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  if (!place || disks_[place->disk]->state() != DiskState::kQuarantined) return;
  if (const auto leaving = parts_.index.BeginRemove(block)) {
    disks_[place->disk]->Forget(*leaving);
  }
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

Status SegmentStore::Close() {
  Status closed;
  for (const auto& disk : disks_) {
    if (Status one = disk->Close(); !one && closed) closed = std::move(one);
  }
  return closed;
}

}  // namespace forebay
