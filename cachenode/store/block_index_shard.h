#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cachenode/store/block_hash.h"
#include "cachenode/store/block_index.h"
#include "common/model/limits.h"

// The parts of BlockIndex: its entries and one of its shards.
namespace forebay {

/// A block of the index. Identity and place are written only while no look can find the entry;
/// readers of the block, its marks and its last use change meanwhile.
struct IndexEntry {
  enum class State : std::uint8_t { kFree, kLive, kLeaving, kGone };

  static constexpr int kOffsetBits = 44;  // of any byte of the largest object
  static constexpr std::uint64_t kMaxOffset = (std::uint64_t{1} << kOffsetBits) - 1;
  static_assert(kMaxOffset >= kMaxObjectBytes);
  static constexpr Hour kMaxHour = (Hour{1} << (64 - kOffsetBits)) - 1;  // until the year 2089

  // The word: 22 bits of readers, pinned, marked, 6 bits of disk, 2 of state.
  static constexpr std::uint32_t kMaxReaders = (1U << 22) - 1;
  static constexpr std::uint32_t kPinned = 1U << 22;
  static constexpr std::uint32_t kMarked = 1U << 23;
  static constexpr int kDiskShift = 24;
  static constexpr int kStateShift = 30;

  ObjectVersion version;
  std::atomic<std::uint64_t> offset_and_use{0};
  std::uint32_t length = 0;
  std::uint32_t segment = 0;  ///< Of a free one: the next free slot + 1.
  std::uint32_t unit = 0;
  std::atomic<std::uint32_t> word{0};

  static State StateOf(std::uint32_t word) { return static_cast<State>(word >> kStateShift); }
  static std::uint32_t BitsOf(State state) {
    return static_cast<std::uint32_t>(state) << kStateShift;
  }

  std::uint32_t Word() const { return word.load(std::memory_order_acquire); }
  bool Is(State wanted) const { return StateOf(Word()) == wanted; }
  bool IsPinned() const { return (Word() & kPinned) != 0; }
  bool IsMarked() const { return (Word() & kMarked) != 0; }
  std::uint64_t offset() const {
    return offset_and_use.load(std::memory_order_relaxed) & kMaxOffset;
  }
  Hour last_use() const {
    return static_cast<Hour>(offset_and_use.load(std::memory_order_relaxed) >> kOffsetBits);
  }
  BlockId block() const { return {version, offset(), length}; }
  BlockPlace place() const {
    return {static_cast<std::uint8_t>(Word() >> kDiskShift & (BlockIndex::kMaxDisks - 1)), segment,
            unit};
  }
  bool LiesIn(std::uint8_t disk, std::uint32_t number) const {
    return Is(State::kLive) && place().disk == disk && segment == number;
  }
  bool IsSpared(const BlockIndex::Spare& spare) const {
    return (spare.pinned && IsPinned()) || last_use() >= spare.used_since;
  }

  /// Under the shard's lock, which alone changes the state. Answers the word as it was.
  std::uint32_t Become(State next) {
    const std::uint32_t change = BitsOf(StateOf(Word())) ^ BitsOf(next);
    return word.fetch_xor(change, std::memory_order_acq_rel);
  }
  /// One reader more, if the block is live.
  bool Hold() {
    std::uint32_t now = Word();
    while (StateOf(now) == State::kLive && (now & kMaxReaders) != kMaxReaders) {
      if (word.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }
  void Use(Hour now) {
    const std::uint64_t hour = std::min(now, kMaxHour);
    std::uint64_t known = offset_and_use.load(std::memory_order_relaxed);
    while (hour > known >> kOffsetBits &&
           !offset_and_use.compare_exchange_weak(known, (known & kMaxOffset) | hour << kOffsetBits,
                                                 std::memory_order_relaxed)) {
    }
  }
};
static_assert(sizeof(IndexEntry) == 40);

/// 1/64 of the index. Changes are made under the lock. Looks take none, and are made under a Look:
/// while there is one, no slot goes to another block and no table is freed, so that what a look has
/// in its hands is what it was. A look that finds nothing while entries move in the table is made
/// again.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): looks have cache lines of their own
struct alignas(64) BlockIndex::Shard {
  using Entry = IndexEntry;
  using State = IndexEntry::State;
  /// Slots + 1, 0 = empty; linear probing.
  struct Table {
    explicit Table(std::size_t size)
        : mask(size - 1), cells(std::make_unique<std::atomic<std::uint32_t>[]>(size)) {}
    std::size_t size() const { return mask + 1; }
    std::uint32_t At(std::size_t place) const {
      return cells[place].load(std::memory_order_acquire);
    }
    void Set(std::size_t place, std::uint32_t value) {
      cells[place].store(value, std::memory_order_release);
    }
    const std::size_t mask;
    const std::unique_ptr<std::atomic<std::uint32_t>[]> cells;
  };
  class Look;

  static constexpr int kSlotBits = 26;
  static constexpr std::uint32_t kMaxSlots = 1U << kSlotBits;
  static constexpr std::size_t kChunk = 256;  // entries that are allocated at once: 10 KiB
  static constexpr std::size_t kChunksInRow = 512;
  static constexpr std::size_t kRows = kMaxSlots / kChunk / kChunksInRow;
  static constexpr std::size_t kFirstTable = 64;
  using Row = std::array<std::atomic<Entry*>, kChunksInRow>;

  Shard();

  Entry& At(std::uint32_t slot) const {
    const std::size_t chunk = slot / kChunk;
    const Row& row = *rows[chunk / kChunksInRow].load(std::memory_order_acquire);
    return row[chunk % kChunksInRow].load(std::memory_order_acquire)[slot % kChunk];
  }
  static std::uint32_t SlotOf(BlockHandle handle) { return handle & (kMaxSlots - 1); }
  Entry& AtHandle(BlockHandle handle) const { return At(SlotOf(handle)); }
  BlockHandle HandleOf(std::uint32_t slot) const { return number << kSlotBits | slot; }
  Found FoundAt(std::uint32_t slot) const {
    const Entry& entry = At(slot);
    return {HandleOf(slot), entry.block(), entry.place(), entry.IsPinned()};
  }

  struct Probed {
    std::size_t place = 0;   ///< Of the block, or the empty one where it belongs.
    std::uint32_t cell = 0;  ///< What stood there: slot + 1, 0 = nothing.
  };
  Probed Probe(const Table& in, const BlockId& block, std::uint64_t hash) const {
    // Each cell is read once: a moment later it may be another block's.
    for (std::size_t at = hash & in.mask;; at = (at + 1) & in.mask) {
      const std::uint32_t cell = in.At(at);
      if (cell == 0 || At(cell - 1).block() == block) return {at, cell};
    }
  }

  // Below: under the lock.

  /// Slot + 1 of a live block; 0 when there is none.
  std::uint32_t FindLive(const BlockId& block, std::uint64_t hash) const;
  Removal Judge(std::uint32_t slot, const Spare& spare) const;
  /// kMaxSlots when there is none.
  std::uint32_t TakeSlot();
  void FreeSlot(std::uint32_t slot);
  void Put(std::uint32_t slot, const BlockId& block, std::uint64_t hash);
  void EraseFromTable(const BlockId& block);
  void Grow();
  /// Frees what was kept for looks, when nobody looks.
  void Reclaim();
  std::size_t MemoryBytes() const;

  mutable std::mutex mutex;
  std::uint32_t number = 0;
  std::uint32_t slots = 0;  // ever used
  std::uint32_t free = 0;   // the first free slot + 1
  std::uint32_t in_table = 0;
  std::unique_ptr<Table> owned_table;
  std::vector<std::unique_ptr<Entry[]>> chunks;
  std::vector<std::unique_ptr<Row>> owned_rows;
  std::vector<std::uint32_t> limbo;             // free slots that a look may still have found
  std::vector<std::unique_ptr<Table>> retired;  // tables likewise

  // Below: for looks, too. On cache lines of their own.
  alignas(64) mutable std::atomic<std::uint32_t> looks{0};
  std::atomic<std::uint32_t> moves{0};  // odd while entries move in the table
  std::atomic<Table*> table{nullptr};
  std::array<std::atomic<Row*>, kRows> rows{};
};

/// A look without the lock.
class BlockIndex::Shard::Look {
 public:
  explicit Look(const Shard& shard) : shard_(shard) {
    shard_.looks.fetch_add(1, std::memory_order_acq_rel);
  }
  ~Look() { shard_.looks.fetch_sub(1, std::memory_order_acq_rel); }
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;

  /// Slot + 1 of what the table says of the block, live or not; 0: it is not there. Good() says
  /// whether to believe an answer that is not a live block.
  std::uint32_t Find(const BlockId& block, std::uint64_t hash) {
    moves_ = shard_.moves.load(std::memory_order_acquire);
    const Table& in = *shard_.table.load(std::memory_order_acquire);
    return shard_.Probe(in, block, hash).cell;
  }
  /// Nothing moved since Find began.
  bool Good() const {
    return moves_ % 2 == 0 && shard_.moves.load(std::memory_order_acquire) == moves_;
  }

 private:
  const Shard& shard_;
  std::uint32_t moves_ = 0;
};

}  // namespace forebay
