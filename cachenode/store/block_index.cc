#include "cachenode/store/block_index.h"

#include "cachenode/store/block_index_shard.h"

namespace forebay {
namespace {

using State = IndexEntry::State;

/// Looks while entries move before the lock is taken: a removal in the shard takes a microsecond.
constexpr int kLooks = 64;

}  // namespace

BlockIndex::BlockIndex(std::atomic<std::uint64_t>* lock_waits)
    : lock_waits_(lock_waits), shards_(std::make_unique<std::array<Shard, kShards>>()) {
  std::uint32_t number = 0;
  for (Shard& shard : *shards_) shard.number = number++;
}

BlockIndex::~BlockIndex() = default;

BlockIndex::Shard& BlockIndex::ShardOf(std::uint64_t hash) const { return (*shards_)[hash >> 58]; }

BlockIndex::Shard& BlockIndex::ShardOfHandle(BlockHandle handle) const {
  return (*shards_)[handle >> Shard::kSlotBits];
}

/// Calls `take(slot)` for what the table says of the block, until it answers true or there is no
/// such live block.
template <typename Take>
void BlockIndex::Seek(const BlockId& block, Take take) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  for (int i = 0; i < kLooks; ++i) {
    Shard::Look look(shard);
    const std::uint32_t found = look.Find(block, hash);
    if ((found != 0 && take(shard, found - 1)) || look.Good()) return;
  }
  if (lock_waits_ != nullptr) lock_waits_->fetch_add(1, std::memory_order_relaxed);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.FindLive(block, hash);
  if (found != 0) take(shard, found - 1);
}

std::optional<BlockIndex::Found> BlockIndex::Acquire(const BlockId& block, Hour now) {
  std::optional<Found> held;
  Seek(block, [&](const Shard& shard, std::uint32_t slot) {
    IndexEntry& entry = shard.At(slot);
    if (!entry.Hold()) return false;
    entry.Use(now);
    held = shard.FoundAt(slot);
    return true;
  });
  return held;
}

bool BlockIndex::Release(BlockHandle handle) {
  Shard& shard = ShardOfHandle(handle);
  const std::uint32_t before = shard.AtHandle(handle).word.fetch_sub(1, std::memory_order_acq_rel);
  const bool last = (before & IndexEntry::kMaxReaders) == 1;
  if (!last || IndexEntry::StateOf(before) != State::kGone) return false;
  const std::scoped_lock lock(shard.mutex);
  shard.FreeSlot(Shard::SlotOf(handle));
  return true;
}

std::optional<BlockPlace> BlockIndex::Find(const BlockId& block) const {
  std::optional<BlockPlace> place;
  Seek(block, [&](const Shard& shard, std::uint32_t slot) {
    const IndexEntry& entry = shard.At(slot);
    if (!entry.Is(State::kLive)) return false;
    place = entry.place();
    return true;
  });
  return place;
}

std::optional<BlockIndex::Found> BlockIndex::Pick(std::uint64_t random) const {
  const Shard& shard = (*shards_)[random >> 58];
  const std::scoped_lock lock(shard.mutex);
  const auto slot = static_cast<std::uint32_t>((random & UINT32_MAX) * shard.slots >> 32);
  if (slot >= shard.slots || !shard.At(slot).Is(State::kLive)) return std::nullopt;
  return shard.FoundAt(slot);
}

bool BlockIndex::Occupied(const BlockId& block) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  return shard.Probe(*shard.owned_table, block, hash).cell != 0;
}

std::optional<BlockHandle> BlockIndex::Insert(const BlockId& block, BlockPlace place, Hour now,
                                              bool pinned) {
  if (block.offset > IndexEntry::kMaxOffset) return std::nullopt;
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  if (shard.Probe(*shard.owned_table, block, hash).cell != 0) return std::nullopt;
  const std::uint32_t slot = shard.TakeSlot();
  if (slot == Shard::kMaxSlots) return std::nullopt;
  IndexEntry& entry = shard.At(slot);
  entry.version = block.version;
  entry.offset_and_use.store(block.offset, std::memory_order_relaxed);
  entry.Use(now);
  entry.length = block.length;
  entry.segment = place.segment;
  entry.unit = place.unit;
  const std::uint32_t disk = place.disk & (kMaxDisks - 1);
  const std::uint32_t marks = pinned ? IndexEntry::kPinned | IndexEntry::kMarked : 0;
  entry.word.store(marks | disk << IndexEntry::kDiskShift | IndexEntry::BitsOf(State::kLive),
                   std::memory_order_release);
  shard.Put(slot, block, hash);
  size_.fetch_add(1, std::memory_order_relaxed);
  return shard.HandleOf(slot);
}

std::optional<BlockIndex::Found> BlockIndex::BeginRemove(const BlockId& block) {
  return BeginRemove(block, Spare{.pinned = false}).found;
}

BlockIndex::Removal BlockIndex::BeginRemove(const BlockId& block, const Spare& spare) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.FindLive(block, hash);
  if (found == 0) return {};
  Removal removal = shard.Judge(found - 1, spare);
  if (removal.found) shard.At(found - 1).Become(State::kLeaving);
  return removal;
}

BlockIndex::Removal BlockIndex::BeginRemove(BlockHandle handle, std::uint8_t disk,
                                            std::uint32_t segment, const Spare& spare) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  IndexEntry& entry = shard.AtHandle(handle);
  if (!entry.LiesIn(disk, segment)) return {};
  Removal removal = shard.Judge(Shard::SlotOf(handle), spare);
  if (removal.found) entry.Become(State::kLeaving);
  return removal;
}

BlockIndex::Removal BlockIndex::LookAt(const BlockId& block, const Spare& spare) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.FindLive(block, hash);
  if (found == 0) return {};
  return shard.Judge(found - 1, spare);
}

BlockIndex::Removal BlockIndex::LookAt(BlockHandle handle, std::uint8_t disk, std::uint32_t segment,
                                       const Spare& spare) const {
  const Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  if (!shard.AtHandle(handle).LiesIn(disk, segment)) return {};
  return shard.Judge(Shard::SlotOf(handle), spare);
}

bool BlockIndex::LiesIn(BlockHandle handle, std::uint8_t disk, std::uint32_t segment) const {
  const Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  const IndexEntry& entry = shard.AtHandle(handle);
  const bool there = entry.Is(State::kLive) || entry.Is(State::kLeaving);
  return there && entry.place().disk == disk && entry.segment == segment;
}

std::optional<BlockIndex::Found> BlockIndex::Pin(const BlockId& block) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.FindLive(block, hash);
  if (found == 0) return std::nullopt;
  Found before = shard.FoundAt(found - 1);
  const std::uint32_t was = shard.At(found - 1).word.fetch_or(
      IndexEntry::kPinned | IndexEntry::kMarked, std::memory_order_acq_rel);
  before.pinned = (was & IndexEntry::kPinned) != 0;
  return before;
}

void BlockIndex::Unmark(BlockHandle handle, std::uint8_t disk, std::uint32_t segment) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  IndexEntry& entry = shard.AtHandle(handle);
  if (entry.LiesIn(disk, segment))
    entry.word.fetch_and(~IndexEntry::kMarked, std::memory_order_acq_rel);
}

std::optional<BlockIndex::Found> BlockIndex::UnpinUnmarked(BlockHandle handle, std::uint8_t disk,
                                                           std::uint32_t segment) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  IndexEntry& entry = shard.AtHandle(handle);
  if (!entry.LiesIn(disk, segment) || !entry.IsPinned() || entry.IsMarked()) return std::nullopt;
  entry.word.fetch_and(~IndexEntry::kPinned, std::memory_order_acq_rel);
  return Found{handle, entry.block(), entry.place(), false};
}

void BlockIndex::CancelRemove(BlockHandle handle) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  shard.AtHandle(handle).Become(State::kLive);
}

bool BlockIndex::FinishRemove(BlockHandle handle) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  IndexEntry& entry = shard.AtHandle(handle);
  shard.EraseFromTable(entry.block());
  size_.fetch_sub(1, std::memory_order_relaxed);
  const std::uint32_t before = entry.Become(State::kGone);
  if ((before & IndexEntry::kMaxReaders) != 0) return false;
  shard.FreeSlot(Shard::SlotOf(handle));
  return true;
}

void BlockIndex::ForgetDisk(std::uint8_t disk) {
  for (Shard& shard : *shards_) {
    const std::scoped_lock lock(shard.mutex);
    for (std::uint32_t slot = 0; slot < shard.slots; ++slot) {
      const IndexEntry& entry = shard.At(slot);
      if (!entry.Is(State::kLive) || entry.place().disk != disk) continue;
      shard.EraseFromTable(entry.block());
      shard.FreeSlot(slot);
      size_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

std::size_t BlockIndex::MemoryBytes() const {
  std::size_t bytes = sizeof(*shards_);
  for (const Shard& shard : *shards_) {
    const std::scoped_lock lock(shard.mutex);
    bytes += shard.MemoryBytes();
  }
  return bytes;
}

}  // namespace forebay
