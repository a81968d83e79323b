#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cachenode/store/disk.h"
#include "common/base/failpoint.h"

// How much of a disk may be used, and how space comes back.
namespace forebay {
namespace {

/// The index's own room: its tables twice (a compaction writes them anew before it drops the old
/// ones), four write buffers (two in memory have a log each, and a table is being made of one), and
/// its small files.
std::uint64_t IndexReserve(std::uint64_t index_bytes, std::uint64_t write_buffer) {
  return 2 * index_bytes + 4 * write_buffer + (1ULL << 20);
}

/// What Usage keeps back: the reserve of an index that has as yet no tables but two full buffers.
std::uint64_t FixedReserve(std::uint64_t write_buffer) {
  return IndexReserve(2 * write_buffer, write_buffer);
}

/// Left to others, and to the index, when others have filled the file system.
constexpr std::uint64_t kSqueezeMargin = 4ULL << 20;
constexpr std::chrono::seconds kUnsqueezeEvery{1};

/// Handles of removed blocks that a segment may keep beside as many as it has live ones.
constexpr std::size_t kStaleHandles = 64;

}  // namespace

/// What blocks may take of so much.
std::uint64_t Disk::LimitOf(std::uint64_t capacity) const {
  const std::uint64_t reserve =
      IndexReserve(index_bytes_.load(std::memory_order_relaxed), write_buffer_);
  return capacity > reserve ? capacity - reserve : 0;
}

std::uint64_t Disk::Limit() const {
  return std::min(LimitOf(capacity_.load(std::memory_order_relaxed)),
                  squeezed_to_.load(std::memory_order_relaxed));
}

void Disk::MeasureIndex() {
  written_since_measured_.store(0, std::memory_order_relaxed);
  index_bytes_.store(db_->DiskBytes(), std::memory_order_relaxed);
}

bool Disk::HasRoom(std::uint64_t bytes) const { return Taken() + bytes <= Limit(); }

std::shared_ptr<RoomClaim> Disk::Claim(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  return HasRoom(bytes) ? std::make_shared<RoomClaim>(number_, claimed_, bytes) : nullptr;
}

std::uint64_t Disk::Taken() const {
  return used_.load(std::memory_order_relaxed) + claimed_.load(std::memory_order_relaxed);
}

/// The file system has no space left although we are within our capacity: others use it. Room for
/// a margin is made at the next admissions.
void Disk::Squeeze() {
  const std::uint64_t used = used_.load(std::memory_order_relaxed);
  const std::uint64_t limit = used > kSqueezeMargin ? used - kSqueezeMargin : 0;
  if (squeezed_to_.exchange(limit, std::memory_order_relaxed) == UINT64_MAX) {
    spdlog::warn("{} has no space left at {} of {} bytes: others use its file system", path_, used,
                 capacity_.load());
  }
  unsqueeze_at_.store((Clock::now() + kUnsqueezeEvery).time_since_epoch(),
                      std::memory_order_relaxed);
}

/// Looks at most once a second whether others have given space back.
void Disk::Unsqueeze() {
  if (squeezed_to_.load(std::memory_order_relaxed) == UINT64_MAX) return;
  const Duration now = Clock::now().time_since_epoch();
  if (now < unsqueeze_at_.load(std::memory_order_relaxed)) return;
  unsqueeze_at_.store(now + Duration(kUnsqueezeEvery), std::memory_order_relaxed);
  const Result<CacheDirectory::Space> space = directory_.FileSystemSpace();
  if (!space || space->available <= kSqueezeMargin) return;
  const std::uint64_t limit =
      used_.load(std::memory_order_relaxed) + space->available - kSqueezeMargin;
  const std::uint64_t now_to = limit < capacity_.load() ? limit : UINT64_MAX;
  if (squeezed_to_.exchange(now_to, std::memory_order_relaxed) < now_to) parts_.NoteRoom();
}

std::uint64_t Disk::FreeBytes() const {
  const std::uint64_t taken = Taken();
  const std::uint64_t limit = Limit();
  return taken >= limit ? 0 : limit - taken;
}

double Disk::FreeShare() const {
  const std::uint64_t taken = Taken();
  const std::uint64_t limit = Limit();
  return taken >= limit ? 0.0 : static_cast<double>(limit - taken) / static_cast<double>(limit);
}

std::vector<LinkUse> Disk::Links() const {
  const std::scoped_lock lock(mutex_);
  std::vector<LinkUse> links;
  for (const auto& [id, numbers] : by_link_) {
    if (numbers.empty()) continue;
    const LinkState& link = *segments_.at(numbers.front())->link;
    links.push_back({id, link.LastUse(), link.pinned.load(std::memory_order_relaxed),
                     link.priority.load(std::memory_order_relaxed)});
  }
  return links;
}

DiskUsage Disk::Usage() const {
  const std::uint64_t reserve = FixedReserve(write_buffer_);
  const std::uint64_t capacity = announced_.load(std::memory_order_relaxed);
  const std::uint64_t own = capacity > reserve ? capacity - reserve : 0;
  const std::uint64_t usable = std::min(own, squeezed_to_.load(std::memory_order_relaxed));
  return {.path = path_,
          .state = state(),
          .used_bytes = used_.load(std::memory_order_relaxed),
          .capacity_bytes = capacity,
          .usable_bytes = state() == DiskState::kOk ? usable : 0,
          .scrubbed_bytes = scrubbed_.load(std::memory_order_relaxed),
          .errors = {.read = errors_.read.load(std::memory_order_relaxed),
                     .write = errors_.write.load(std::memory_order_relaxed),
                     .full = errors_.full.load(std::memory_order_relaxed),
                     .hang = errors_.hang.load(std::memory_order_relaxed),
                     .gone = errors_.gone.load(std::memory_order_relaxed)}};
}

std::optional<BlockIndex::Found> Disk::BeginRemoveOldest(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  const auto numbers = by_link_.find(link);
  if (numbers == by_link_.end()) return std::nullopt;
  for (const std::uint32_t number : numbers->second) {
    Segment& segment = *segments_.at(number);
    while (segment.oldest < segment.blocks.size()) {
      const BlockHandle handle = segment.blocks[segment.oldest++];
      const auto removal = parts_.index.BeginRemove(handle, number_, number, BlockIndex::Spare());
      if (removal.found) return removal.found;
      if (removal.pinned) segment.blocks[segment.spared++] = handle;
    }
    segment.blocks.resize(segment.spared);
    segment.oldest = segment.spared;
  }
  return std::nullopt;
}

std::optional<BlockIndex::Found> Disk::Pick(const Uuid& link, std::uint64_t random) const {
  const std::scoped_lock lock(mutex_);
  const auto numbers = by_link_.find(link);
  if (numbers == by_link_.end()) return std::nullopt;
  const std::uint32_t number = numbers->second[(random >> 32) * numbers->second.size() >> 32];
  const std::vector<BlockHandle>& blocks = segments_.at(number)->blocks;
  const std::size_t at = (random & UINT32_MAX) * blocks.size() >> 32;
  if (at >= blocks.size()) return std::nullopt;
  return parts_.index.LookAt(blocks[at], number_, number, BlockIndex::Spare()).found;
}

void Disk::LookAgain(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  const auto numbers = by_link_.find(link);
  if (numbers == by_link_.end()) return;
  for (const std::uint32_t number : numbers->second) {
    Segment& segment = *segments_.at(number);
    const auto first = segment.blocks.begin();
    segment.blocks.erase(first + static_cast<std::ptrdiff_t>(segment.spared),
                         first + static_cast<std::ptrdiff_t>(segment.oldest));
    segment.oldest = 0;
    segment.spared = 0;
  }
}

Result<Disk::Removal> Disk::Remove(const std::vector<BlockIndex::Found>& leaving, BlockLoss loss) {
  // The index first, so that no entry ever points at freed space.
  if (Status deleted = DeleteRows(leaving); !deleted) {
    CancelRemoval(leaving);
    return Fail(std::move(deleted.error()));
  }
  Removal removal;
  std::vector<Freed> freed;
  for (const BlockIndex::Found& found : leaving) {
    const std::uint64_t bytes = RecordDiskBytes(found.block.length);
    ++removal.evicted.blocks;
    removal.evicted.bytes += bytes;
    parts_.on_loss(found.block, loss);
    Uncount(found);
    parts_.history.SetCached(found.block, false);
    // Under the lock that Release takes: the last reader must find the place in `waiting_`.
    const std::scoped_lock lock(release_mutex_);
    if (parts_.index.FinishRemove(found.handle)) {
      freed.push_back({found.place, bytes});
    } else {
      waiting_.emplace(found.place.segment, found.place.unit);
      removal.waiting.push_back(found.place);
    }
  }
  failpoint("store.before_punch");
  Free(freed);
  return removal;
}

void Disk::CancelRemoval(const std::vector<BlockIndex::Found>& leaving) {
  const std::scoped_lock lock(mutex_);
  for (const BlockIndex::Found& found : leaving) {
    parts_.index.CancelRemove(found.handle);
    const auto segment = segments_.find(found.place.segment);
    if (segment != segments_.end()) segment->second->blocks.push_back(found.handle);
  }
}

Status Disk::DeleteRows(const std::vector<BlockIndex::Found>& gone) {
  std::vector<BlockId> blocks;
  std::vector<BlockId> pinned;
  blocks.reserve(gone.size());
  for (const BlockIndex::Found& found : gone) {
    blocks.push_back(found.block);
    if (found.pinned) pinned.push_back(found.block);
  }
  return db_->Delete(blocks, pinned);
}

void Disk::Uncount(const BlockIndex::Found& leaving) {
  const std::scoped_lock lock(mutex_);
  LinkState& link = *segments_.at(leaving.place.segment)->link;
  link.blocks.fetch_sub(1, std::memory_order_relaxed);
  link.bytes.fetch_sub(leaving.block.length, std::memory_order_relaxed);
  if (leaving.pinned) link.pinned_bytes.fetch_sub(leaving.block.length, std::memory_order_relaxed);
}

void Disk::Release(const BlockPlace& place, std::uint32_t length) {
  const std::scoped_lock lock(release_mutex_);
  released_.push_back({place, RecordDiskBytes(length)});
}

void Disk::FreeReleased() {
  std::vector<Freed> released;
  {
    const std::scoped_lock lock(release_mutex_);
    released.swap(released_);
  }
  if (released.empty()) return;
  Free(released);
  {
    const std::scoped_lock lock(release_mutex_);
    for (const Freed& freed : released) waiting_.erase({freed.place.segment, freed.place.unit});
  }
  parts_.freed.NotifyAll();
}

bool Disk::IsFreed(const BlockPlace& place) const {
  const std::scoped_lock lock(release_mutex_);
  return !waiting_.contains({place.segment, place.unit});
}

/// From now on nobody finds the segment. Under the mutex.
void Disk::ForgetSegment(const Segment& segment) {
  const Uuid& link = segment.link->id;
  const auto open = open_.find(link);
  if (open != open_.end() && open->second.get() == &segment) open_.erase(open);
  const auto numbers = by_link_.find(link);
  numbers->second.erase(std::ranges::lower_bound(numbers->second, segment.number));
  if (numbers->second.empty()) by_link_.erase(numbers);
  segments_.erase(segment.number);
}

/// Victims are scattered, and a segment lives until its last block has gone: without this it would
/// remember all that it ever held. Under the mutex.
void Disk::DropStaleHandles(Segment& segment) const {
  if (segment.blocks.size() < std::size_t{2} * segment.live_blocks + kStaleHandles) return;
  std::vector<BlockHandle> kept;
  kept.reserve(segment.live_blocks);
  std::size_t spared = 0;
  for (std::size_t i = 0; i < segment.blocks.size(); ++i) {
    if (i >= segment.spared && i < segment.oldest) continue;  // the evictor has them
    if (!parts_.index.LiesIn(segment.blocks[i], number_, segment.number)) continue;
    kept.push_back(segment.blocks[i]);
    if (i < segment.spared) ++spared;
  }
  segment.blocks = std::move(kept);
  segment.spared = spared;
  segment.oldest = spared;
}

/// Takes the record out of its segment's counts. True: the segment is empty and nobody's any more;
/// the record's space goes with it. False: the record is to be punched, then FinishFreeing.
bool Disk::Detach(const Freed& freed, std::shared_ptr<Segment>& segment) {
  const std::scoped_lock lock(mutex_);
  segment = segments_.at(freed.place.segment);
  --segment->live_blocks;
  segment->live_bytes -= freed.bytes;
  DropStaleHandles(*segment);
  if (segment->InUse()) {
    ++segment->freeing;
    return false;
  }
  segment->slack_bytes += freed.bytes;
  ForgetSegment(*segment);
  return true;
}

/// The record is punched, or could not be. Whoever punches last drops a segment that is empty by
/// now: until then its file must be there.
void Disk::FinishFreeing(const std::shared_ptr<Segment>& segment, std::uint64_t bytes, int error) {
  if (error == 0) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  } else if (error != EOPNOTSUPP) {
    CountWriteError(error);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (error != 0) segment->slack_bytes += bytes;
    --segment->freeing;
    if (segment->InUse()) return;
    ForgetSegment(*segment);
  }
  Drop(segment);
}

void Disk::Free(std::span<const Freed> freed) {
  if (Owe(freed)) return;
  FileDescriptor fd;
  std::uint32_t fd_of = 0;
  for (const Freed& one : freed) {
    std::shared_ptr<Segment> segment;
    if (Detach(one, segment)) {
      Drop(segment);
      failpoint("store.after_punch");
      continue;
    }
    if (!fd || fd_of != segment->number) {
      fd = directory_.OpenSegment(segment->link->id, segment->number, O_WRONLY);
      fd_of = segment->number;
    }
    const int error = fd ? PunchHole(fd.get(), one.place.position(), one.bytes) : errno;
    failpoint("store.after_punch");
    FinishFreeing(segment, one.bytes, error);
  }
}

/// Unlinks an empty segment that nobody finds any more.
void Disk::Drop(const std::shared_ptr<Segment>& segment) {
  parts_.files.Erase(number_, segment->number);
  if (!directory_.UnlinkSegment(segment->link->id, segment->number)) {
    CountWriteError(errno);  // its space stays counted: it is still taken
    return;
  }
  used_.fetch_sub(segment->slack_bytes, std::memory_order_relaxed);
}

}  // namespace forebay
