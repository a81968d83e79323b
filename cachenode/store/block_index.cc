#include "cachenode/store/block_index.h"

#include <algorithm>

#include "cachenode/store/block_hash.h"

namespace forebay {
namespace {

enum class State : std::uint8_t { kFree, kLive, kLeaving, kGone };

constexpr int kOffsetBits = 44;  // 16 TiB: more than S3's largest object
constexpr std::uint64_t kMaxOffset = (std::uint64_t{1} << kOffsetBits) - 1;
constexpr Hour kMaxHour = (Hour{1} << (64 - kOffsetBits)) - 1;  // until the year 2089

struct Entry {
  ObjectVersion version;
  std::uint64_t offset : kOffsetBits = 0;
  std::uint64_t last_use : 64 - kOffsetBits = 0;
  std::uint32_t length = 0;
  std::uint32_t segment = 0;  // kFree: the next free slot + 1
  std::uint32_t unit = 0;
  std::uint32_t readers : 22 = 0;
  std::uint32_t pinned : 1 = 0;
  std::uint32_t marked : 1 = 0;
  std::uint32_t disk : 6 = 0;
  std::uint32_t state : 2 = 0;

  BlockId block() const { return {version, std::uint64_t{offset}, length}; }
  BlockPlace place() const { return {static_cast<std::uint8_t>(disk), segment, unit}; }
  bool Is(State wanted) const { return state == static_cast<std::uint32_t>(wanted); }
  void Become(State next) { state = static_cast<std::uint32_t>(next) & 3U; }
  void Use(Hour now) {
    if (now > last_use) last_use = std::min(now, kMaxHour) & kMaxHour;
  }
  bool LiesIn(std::uint8_t where, std::uint32_t number) const {
    return Is(State::kLive) && disk == where && segment == number;
  }
  bool IsSpared(const BlockIndex::Spare& spare) const {
    return (spare.pinned && pinned != 0) || last_use >= spare.used_since;
  }
};
static_assert(sizeof(Entry) == 40);

constexpr std::uint32_t kMaxReaders = (1U << 22) - 1;
constexpr std::size_t kChunk = 256;  // entries that are allocated at once: 10 KiB
constexpr int kSlotBits = 26;
constexpr std::uint32_t kMaxSlots = 1U << kSlotBits;
constexpr std::size_t kFirstTable = 64;

}  // namespace

struct alignas(64) BlockIndex::Shard {
  mutable std::mutex mutex;
  std::uint32_t number = 0;
  std::vector<std::unique_ptr<Entry[]>> chunks;
  std::uint32_t slots = 0;           // ever used
  std::uint32_t free = 0;            // the first free slot + 1
  std::vector<std::uint32_t> table;  // slot + 1; 0 = empty; linear probing
  std::uint32_t in_table = 0;

  Entry& At(std::uint32_t slot) const { return chunks[slot / kChunk][slot % kChunk]; }
  Entry& AtHandle(BlockHandle handle) const { return At(handle & (kMaxSlots - 1)); }
  BlockHandle HandleOf(std::uint32_t slot) const { return number << kSlotBits | slot; }

  /// The place in the table of `block`, or of the empty place where it belongs.
  std::size_t Probe(const BlockId& block, std::uint64_t hash) const {
    const std::size_t mask = table.size() - 1;
    std::size_t at = hash & mask;
    while (table[at] != 0 && At(table[at] - 1).block() != block) at = (at + 1) & mask;
    return at;
  }

  /// The entry in the table, or null.
  Entry* Find(const BlockId& block, std::uint64_t hash) const {
    const std::uint32_t found = table[Probe(block, hash)];
    return found == 0 ? nullptr : &At(found - 1);
  }

  void Grow() {
    const std::vector<std::uint32_t> old = std::move(table);
    table.assign(old.size() * 2, 0);
    for (const std::uint32_t slot : old) {
      if (slot == 0) continue;
      const BlockId block = At(slot - 1).block();
      table[Probe(block, MixedHash(block))] = slot;
    }
  }

  void EraseFromTable(const BlockId& block) {
    const std::size_t mask = table.size() - 1;
    std::size_t hole = Probe(block, MixedHash(block));
    // Whatever a probe reached across the hole moves into it, so that no tombstones are needed.
    for (std::size_t at = (hole + 1) & mask; table[at] != 0; at = (at + 1) & mask) {
      const std::size_t home = MixedHash(At(table[at] - 1).block()) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      table[hole] = table[at];
      hole = at;
    }
    table[hole] = 0;
    --in_table;
  }

  /// kMaxSlots when there is none.
  std::uint32_t TakeSlot() {
    if (free != 0) {
      const std::uint32_t slot = free - 1;
      free = At(slot).segment;
      return slot;
    }
    if (slots == kMaxSlots) return kMaxSlots;
    if (slots % kChunk == 0) chunks.push_back(std::make_unique<Entry[]>(kChunk));
    return slots++;
  }

  Removal Judge(std::uint32_t slot, const Spare& spare) const;

  void FreeSlot(std::uint32_t slot) {
    Entry& entry = At(slot);
    entry = Entry{};
    entry.segment = free;
    free = slot + 1;
  }
};

BlockIndex::BlockIndex() : shards_(std::make_unique<std::array<Shard, kShards>>()) {
  std::uint32_t number = 0;
  for (Shard& shard : *shards_) {
    shard.number = number++;
    shard.table.assign(kFirstTable, 0);
  }
}

BlockIndex::~BlockIndex() = default;

BlockIndex::Shard& BlockIndex::ShardOf(std::uint64_t hash) const { return (*shards_)[hash >> 58]; }

BlockIndex::Shard& BlockIndex::ShardOfHandle(BlockHandle handle) const {
  return (*shards_)[handle >> kSlotBits];
}

std::optional<BlockIndex::Found> BlockIndex::Acquire(const BlockId& block, Hour now) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.table[shard.Probe(block, hash)];
  if (found == 0) return std::nullopt;
  Entry& entry = shard.At(found - 1);
  if (!entry.Is(State::kLive) || entry.readers == kMaxReaders) return std::nullopt;
  entry.readers = (entry.readers + 1) & kMaxReaders;
  entry.Use(now);
  return Found{shard.HandleOf(found - 1), block, entry.place(), entry.pinned != 0};
}

bool BlockIndex::Release(BlockHandle handle) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.AtHandle(handle);
  entry.readers = (entry.readers - 1) & kMaxReaders;
  if (entry.readers != 0 || !entry.Is(State::kGone)) return false;
  shard.FreeSlot(handle & (kMaxSlots - 1));
  return true;
}

std::optional<BlockPlace> BlockIndex::Find(const BlockId& block) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const Entry* entry = shard.Find(block, hash);
  if (entry == nullptr || !entry->Is(State::kLive)) return std::nullopt;
  return entry->place();
}

std::optional<BlockIndex::Found> BlockIndex::Pick(std::uint64_t random) const {
  const Shard& shard = (*shards_)[random >> 58];
  const std::scoped_lock lock(shard.mutex);
  const auto slot = static_cast<std::uint32_t>((random & UINT32_MAX) * shard.slots >> 32);
  if (slot >= shard.slots || !shard.At(slot).Is(State::kLive)) return std::nullopt;
  const Entry& entry = shard.At(slot);
  return Found{shard.HandleOf(slot), entry.block(), entry.place(), entry.pinned != 0};
}

bool BlockIndex::Occupied(const BlockId& block) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  return shard.Find(block, hash) != nullptr;
}

std::optional<BlockHandle> BlockIndex::Insert(const BlockId& block, BlockPlace place, Hour now,
                                              bool pinned) {
  if (block.offset > kMaxOffset) return std::nullopt;
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  std::size_t at = shard.Probe(block, hash);
  if (shard.table[at] != 0) return std::nullopt;
  const std::uint32_t slot = shard.TakeSlot();
  if (slot == kMaxSlots) return std::nullopt;
  if ((shard.in_table + 1) * std::size_t{4} > shard.table.size() * 3) {
    shard.Grow();
    at = shard.Probe(block, hash);
  }
  Entry& entry = shard.At(slot);
  entry.version = block.version;
  entry.offset = block.offset & kMaxOffset;
  entry.Use(now);
  entry.length = block.length;
  entry.segment = place.segment;
  entry.unit = place.unit;
  entry.readers = 0;
  entry.pinned = pinned ? 1 : 0;
  entry.marked = entry.pinned;
  entry.disk = place.disk & (kMaxDisks - 1);
  entry.Become(State::kLive);
  shard.table[at] = slot + 1;
  ++shard.in_table;
  size_.fetch_add(1, std::memory_order_relaxed);
  return shard.HandleOf(slot);
}

std::optional<BlockIndex::Found> BlockIndex::BeginRemove(const BlockId& block) {
  return BeginRemove(block, Spare{.pinned = false}).found;
}

BlockIndex::Removal BlockIndex::Shard::Judge(std::uint32_t slot, const Spare& spare) const {
  const Entry& entry = At(slot);
  if (entry.IsSpared(spare)) return {.pinned = entry.pinned != 0, .length = entry.length};
  return {.found = Found{HandleOf(slot), entry.block(), entry.place(), entry.pinned != 0}};
}

BlockIndex::Removal BlockIndex::BeginRemove(const BlockId& block, const Spare& spare) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.table[shard.Probe(block, hash)];
  if (found == 0 || !shard.At(found - 1).Is(State::kLive)) return {};
  Removal removal = shard.Judge(found - 1, spare);
  if (removal.found) shard.At(found - 1).Become(State::kLeaving);
  return removal;
}

BlockIndex::Removal BlockIndex::BeginRemove(BlockHandle handle, std::uint8_t disk,
                                            std::uint32_t segment, const Spare& spare) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.AtHandle(handle);
  if (!entry.LiesIn(disk, segment)) return {};
  Removal removal = shard.Judge(handle & (kMaxSlots - 1), spare);
  if (removal.found) entry.Become(State::kLeaving);
  return removal;
}

BlockIndex::Removal BlockIndex::LookAt(const BlockId& block, const Spare& spare) const {
  const std::uint64_t hash = MixedHash(block);
  const Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.table[shard.Probe(block, hash)];
  if (found == 0 || !shard.At(found - 1).Is(State::kLive)) return {};
  return shard.Judge(found - 1, spare);
}

BlockIndex::Removal BlockIndex::LookAt(BlockHandle handle, std::uint8_t disk, std::uint32_t segment,
                                       const Spare& spare) const {
  const Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  if (!shard.AtHandle(handle).LiesIn(disk, segment)) return {};
  return shard.Judge(handle & (kMaxSlots - 1), spare);
}

bool BlockIndex::LiesIn(BlockHandle handle, std::uint8_t disk, std::uint32_t segment) const {
  const Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  const Entry& entry = shard.AtHandle(handle);
  const bool there = entry.Is(State::kLive) || entry.Is(State::kLeaving);
  return there && entry.disk == disk && entry.segment == segment;
}

std::optional<BlockIndex::Found> BlockIndex::Pin(const BlockId& block) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::uint32_t found = shard.table[shard.Probe(block, hash)];
  if (found == 0 || !shard.At(found - 1).Is(State::kLive)) return std::nullopt;
  Entry& entry = shard.At(found - 1);
  const Found before{shard.HandleOf(found - 1), block, entry.place(), entry.pinned != 0};
  entry.pinned = 1;
  entry.marked = 1;
  return before;
}

void BlockIndex::Unmark(BlockHandle handle, std::uint8_t disk, std::uint32_t segment) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.AtHandle(handle);
  if (entry.LiesIn(disk, segment)) entry.marked = 0;
}

std::optional<BlockIndex::Found> BlockIndex::UnpinUnmarked(BlockHandle handle, std::uint8_t disk,
                                                           std::uint32_t segment) {
  Shard& shard = ShardOfHandle(handle);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.AtHandle(handle);
  if (!entry.LiesIn(disk, segment) || entry.pinned == 0 || entry.marked != 0) return std::nullopt;
  entry.pinned = 0;
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
  Entry& entry = shard.AtHandle(handle);
  shard.EraseFromTable(entry.block());
  size_.fetch_sub(1, std::memory_order_relaxed);
  entry.Become(State::kGone);
  if (entry.readers != 0) return false;
  shard.FreeSlot(handle & (kMaxSlots - 1));
  return true;
}

void BlockIndex::ForgetDisk(std::uint8_t disk) {
  for (Shard& shard : *shards_) {
    const std::scoped_lock lock(shard.mutex);
    for (std::uint32_t slot = 0; slot < shard.slots; ++slot) {
      const Entry& entry = shard.At(slot);
      if (!entry.Is(State::kLive) || entry.disk != disk) continue;
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
    bytes += shard.chunks.size() * kChunk * sizeof(Entry) +
             shard.chunks.capacity() * sizeof(shard.chunks[0]) +
             shard.table.capacity() * sizeof(std::uint32_t);
  }
  return bytes;
}

}  // namespace forebay
