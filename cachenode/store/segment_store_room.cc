#include <algorithm>

#include "cachenode/store/segment_store.h"

// How a full store makes room for a new block.
namespace forebay {
namespace {

/// Victims that others took first, or that are pinned by now.
constexpr int kMostLost = 64;

}  // namespace

bool SegmentStore::HasFreeRoom(const Uuid& link, std::uint64_t bytes) const {
  if (parts_.links.RoomLeft(link) < bytes) return false;
  return std::ranges::any_of(disks_, [&](const auto& disk) {
    return disk->state() == DiskState::kOk && disk->FreeBytes() >= bytes;
  });
}

bool SegmentStore::MakeRoom(const LinkUse& newcomer, const BlockId& block) {
  const std::uint64_t bytes = RecordDiskBytes(block.length);
  for (Disk* disk : WritableDisks()) {
    const std::vector<Uuid> victims = policy_->VictimLinks(newcomer, disk->Links(), parts_.now());
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

/// The least wanted of what `draw` draws, leaving from now on; empty: it is not to go for the
/// block.
std::optional<BlockIndex::Found> SegmentStore::TakeVictim(const Uuid& link, const BlockId& block,
                                                          const VictimChoice::Draw& draw) {
  for (int lost = 0; lost < kMostLost; ++lost) {
    const auto victim = choice_.Choose(link, block, draw);
    if (!victim) return std::nullopt;
    const auto removal = parts_.index.BeginRemove(victim->handle, victim->place.disk,
                                                  victim->place.segment, BlockIndex::Spare());
    if (removal.found) return removal.found;
  }
  return std::nullopt;
}

/// All that must go for the block, or nothing. The first victim says on which disk.
bool SegmentStore::MakeRoomByWorth(const Uuid& link, const BlockId& block) {
  const std::uint64_t bytes = RecordDiskBytes(block.length);
  Disk* disk = nullptr;
  const auto draw = [&](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
    const std::optional<BlockIndex::Found> found = parts_.index.Pick(random);
    if (!found || found->pinned) return std::nullopt;
    const Disk& of = *disks_[found->place.disk];
    if ((disk != nullptr && disk != &of) || of.state() != DiskState::kOk) return std::nullopt;
    const auto lies_in = of.LinkOf(found->place.segment);
    if (!lies_in || lies_in->pinned.load(std::memory_order_relaxed)) return std::nullopt;
    return VictimChoice::Drawn{*found, lies_in->id};
  };
  std::vector<BlockIndex::Found> leaving;
  std::uint64_t gain = 0;
  while (gain < bytes && (disk == nullptr || !disk->HasRoom(bytes - gain))) {
    const bool enough = leaving.size() == kRemoveAtOnce;
    const auto victim = enough ? std::nullopt : TakeVictim(link, block, draw);
    if (!victim) {
      for (const BlockIndex::Found& found : leaving) parts_.index.CancelRemove(found.handle);
      return false;
    }
    disk = disks_[victim->place.disk].get();
    gain += RecordDiskBytes(victim->block.length);
    leaving.push_back(*victim);
  }
  return disk != nullptr && Evict(*disk, leaving).has_value();
}

/// Within the quota of its link. There the link is a cache of that size: only its own blocks go,
/// for a pinned block the oldest, for any other those that its jobs want less.
bool SegmentStore::HoldRoom(LinkState& link, const BlockId& block, bool pinned) {
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    if (link.HoldRoom(block.length)) return true;
    if (link.pinned.load(std::memory_order_relaxed)) return false;
    if (!pinned) {
      if (!MakeRoomInQuota(link, block)) return false;
      continue;
    }
    Evicted freed;
    for (const auto& disk : disks_) {
      if (TrimOn(*disk, link, block.length, freed) >= block.length) break;
    }
    if (freed.blocks == 0) return false;
  }
  return false;
}

/// All that must go for the block, or nothing.
bool SegmentStore::MakeRoomInQuota(LinkState& link, const BlockId& block) {
  const auto draw = [&](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
    const Disk& disk = *disks_[(random & UINT32_MAX) % disks_.size()];
    if (disk.state() != DiskState::kOk) return std::nullopt;
    const std::optional<BlockIndex::Found> found = disk.Pick(link.id, random);
    if (!found) return std::nullopt;
    return VictimChoice::Drawn{*found, link.id};
  };
  const std::optional<std::uint64_t> lacks = link.Lacks(block.length);
  std::vector<BlockIndex::Found> leaving;
  std::uint64_t gain = 0;
  while (lacks && gain < *lacks) {
    const bool enough = leaving.size() == kRemoveAtOnce;
    const auto victim = enough ? std::nullopt : TakeVictim(link.id, block, draw);
    if (!victim) break;
    gain += victim->block.length;
    leaving.push_back(*victim);
  }
  if (!lacks || gain < *lacks) {
    for (const BlockIndex::Found& found : leaving) parts_.index.CancelRemove(found.handle);
    return false;
  }
  const Result<Removed> removed = RemoveAll(leaving, BlockLoss::kOverQuota);
  if (!removed) return false;
  parts_.counters.trimmed_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  link.evicted_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  return true;
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
