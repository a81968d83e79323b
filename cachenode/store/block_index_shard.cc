#include "cachenode/store/block_index_shard.h"

namespace forebay {

BlockIndex::Shard::Shard() : owned_table(std::make_unique<Table>(kFirstTable)) {
  table.store(owned_table.get(), std::memory_order_release);
}

std::uint32_t BlockIndex::Shard::FindLive(const BlockId& block, std::uint64_t hash) const {
  const std::uint32_t found = Probe(*owned_table, block, hash).cell;
  return found != 0 && At(found - 1).Is(State::kLive) ? found : 0;
}

BlockIndex::Removal BlockIndex::Shard::Judge(std::uint32_t slot, const Spare& spare) const {
  const Entry& entry = At(slot);
  if (entry.IsSpared(spare)) return {.pinned = entry.IsPinned(), .length = entry.length};
  return {.found = FoundAt(slot)};
}

std::uint32_t BlockIndex::Shard::TakeSlot() {
  Reclaim();
  if (free != 0) {
    const std::uint32_t slot = free - 1;
    free = At(slot).segment;
    return slot;
  }
  if (slots == kMaxSlots) return kMaxSlots;
  if (slots % kChunk == 0) {
    const std::size_t chunk = slots / kChunk;
    if (chunk % kChunksInRow == 0) {
      owned_rows.push_back(std::make_unique<Row>());
      rows[chunk / kChunksInRow].store(owned_rows.back().get(), std::memory_order_release);
    }
    chunks.push_back(std::make_unique<Entry[]>(kChunk));
    (*owned_rows.back())[chunk % kChunksInRow].store(chunks.back().get(),
                                                     std::memory_order_release);
  }
  return slots++;
}

void BlockIndex::Shard::FreeSlot(std::uint32_t slot) {
  At(slot).Become(State::kFree);
  limbo.push_back(slot);
  Reclaim();
}

/// Whoever looks later enters after this exchange and so sees tables without these slots, and the
/// new table; whoever looked before has left before it.
void BlockIndex::Shard::Reclaim() {
  if (limbo.empty() && retired.empty()) return;
  std::uint32_t nobody = 0;
  if (!looks.compare_exchange_strong(nobody, 0, std::memory_order_acq_rel)) return;
  for (const std::uint32_t slot : limbo) {
    At(slot).segment = std::exchange(free, slot + 1);
  }
  limbo.clear();
  if (limbo.capacity() > kChunk) limbo.shrink_to_fit();
  retired.clear();
}

/// The entry is whole before a look can find it.
void BlockIndex::Shard::Put(std::uint32_t slot, const BlockId& block, std::uint64_t hash) {
  if ((in_table + 1) * std::size_t{4} > owned_table->size() * 3) Grow();
  owned_table->Set(Probe(*owned_table, block, hash).place, slot + 1);
  ++in_table;
}

/// The old table stays as it is for those who look in it.
void BlockIndex::Shard::Grow() {
  auto grown = std::make_unique<Table>(owned_table->size() * 2);
  for (std::size_t place = 0; place < owned_table->size(); ++place) {
    const std::uint32_t cell = owned_table->At(place);
    if (cell == 0) continue;
    const BlockId block = At(cell - 1).block();
    grown->Set(Probe(*grown, block, MixedHash(block)).place, cell);
  }
  moves.fetch_add(1, std::memory_order_acq_rel);
  table.store(grown.get(), std::memory_order_release);
  moves.fetch_add(1, std::memory_order_acq_rel);
  retired.push_back(std::exchange(owned_table, std::move(grown)));
  Reclaim();
}

void BlockIndex::Shard::EraseFromTable(const BlockId& block) {
  Table& in = *owned_table;
  std::size_t hole = Probe(in, block, MixedHash(block)).place;
  moves.fetch_add(1, std::memory_order_acq_rel);
  // Whatever a probe reached across the hole moves into it, so that no tombstones are needed.
  for (std::size_t at = (hole + 1) & in.mask; in.At(at) != 0; at = (at + 1) & in.mask) {
    const std::size_t home = MixedHash(At(in.At(at) - 1).block()) & in.mask;
    if (((at - home) & in.mask) < ((at - hole) & in.mask)) continue;
    in.Set(hole, in.At(at));
    hole = at;
  }
  in.Set(hole, 0);
  moves.fetch_add(1, std::memory_order_acq_rel);
  --in_table;
}

std::size_t BlockIndex::Shard::MemoryBytes() const {
  std::size_t bytes = chunks.size() * kChunk * sizeof(Entry) +
                      chunks.capacity() * sizeof(chunks[0]) + owned_rows.size() * sizeof(Row) +
                      limbo.capacity() * sizeof(limbo[0]) +
                      owned_table->size() * sizeof(std::uint32_t);
  for (const auto& old : retired) bytes += old->size() * sizeof(std::uint32_t);
  return bytes;
}

}  // namespace forebay
