#include <algorithm>

#include "cachenode/store/segment_store.h"

// How a full store makes room for a new block.
namespace forebay {
namespace {

/// Victims that others took first, or that are pinned by now.
constexpr int kMostLost = 64;

}  // namespace

bool SegmentStore::MakeRoom(const LinkUse& newcomer, const BlockId& block) {
  const std::uint64_t bytes = RecordDiskBytes(block.length);
  for (Disk* disk : WritableDisks()) {
    const std::vector<Uuid> victims = policy_->VictimLinks(newcomer, disk->Links(), Clock::now());
    if (MakeRoomOn(*disk, victims, bytes)) return true;
  }
  return !newcomer.pinned && MakeRoomByWorth(newcomer.link, block);
}

bool SegmentStore::MakeRoomOn(Disk& disk, const std::vector<Uuid>& victims, std::uint64_t bytes) {
  for (const Uuid& victim : victims) {
    while (!disk.HasRoom(bytes)) {
      std::vector<BlockIndex::Found> leaving;
      for (std::uint64_t gain = 0; gain < bytes && leaving.size() < kRemoveAtOnce;) {
        const auto oldest = disk.BeginRemoveOldest(victim);
        if (!oldest) break;
        gain += RecordDiskBytes(oldest->block.length);
        leaving.push_back(*oldest);
      }
      if (leaving.empty()) break;
      if (!Evict(disk, leaving)) return false;
    }
    if (disk.HasRoom(bytes)) return true;
  }
  return disk.HasRoom(bytes);
}

/// All that must go for the block, or nothing. The first victim says on which disk.
bool SegmentStore::MakeRoomByWorth(const Uuid& link, const BlockId& block) {
  const std::uint64_t bytes = RecordDiskBytes(block.length);
  Disk* disk = nullptr;
  std::vector<BlockIndex::Found> leaving;
  const auto link_of = [&](const BlockIndex::Found& found) -> std::optional<Uuid> {
    const Disk& of = *disks_[found.place.disk];
    if ((disk != nullptr && disk != &of) || of.state() != DiskState::kOk) return std::nullopt;
    const auto lies_in = of.LinkOf(found.place.segment);
    if (!lies_in || lies_in->pinned.load(std::memory_order_relaxed)) return std::nullopt;
    return lies_in->id;
  };
  int lost = 0;
  std::uint64_t gain = 0;
  while (gain < bytes && (disk == nullptr || !disk->HasRoom(bytes - gain))) {
    const auto victim = choice_.Choose(link, block, link_of);
    const bool enough = !victim || leaving.size() == kRemoveAtOnce || lost == kMostLost;
    if (enough) {
      for (const BlockIndex::Found& found : leaving) parts_.index.CancelRemove(found.handle);
      return false;
    }
    const auto removal = parts_.index.BeginRemove(victim->handle, victim->place.disk,
                                                  victim->place.segment, BlockIndex::Spare());
    if (!removal.found) {
      ++lost;
      continue;
    }
    disk = disks_[removal.found->place.disk].get();
    gain += RecordDiskBytes(removal.found->block.length);
    leaving.push_back(*removal.found);
  }
  return disk != nullptr && Evict(*disk, leaving).has_value();
}

Result<Disk::Removal> SegmentStore::Evict(Disk& disk,
                                          const std::vector<BlockIndex::Found>& leaving) {
  std::vector<std::shared_ptr<LinkState>> links;
  links.reserve(leaving.size());
  for (const BlockIndex::Found& found : leaving) links.push_back(disk.LinkOf(found.place.segment));
  Result<Disk::Removal> removed = disk.Remove(leaving, BlockLoss::kReplaced);
  if (!removed) return removed;
  const Evicted& evicted = removed->evicted;
  parts_.counters.evicted_blocks.fetch_add(evicted.blocks, std::memory_order_relaxed);
  parts_.counters.evicted_bytes.fetch_add(evicted.bytes, std::memory_order_relaxed);
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    if (links[i]) {
      links[i]->evicted_bytes.fetch_add(RecordDiskBytes(leaving[i].block.length),
                                        std::memory_order_relaxed);
    }
  }
  return removed;
}

}  // namespace forebay
