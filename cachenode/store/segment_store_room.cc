#include <algorithm>

#include "cachenode/store/segment_store.h"

// How a full store makes room for a new block.
namespace forebay {
namespace {

/// Victims that others took first, or that are pinned by now.
constexpr int kMostLost = 64;

}  // namespace

bool SegmentStore::HasFreeRoom(const Uuid& link, std::uint64_t bytes) const {
  if (!QuotaLeaves(link, bytes)) return false;
  return std::ranges::any_of(disks_, [&](const auto& disk) {
    return disk->state() == DiskState::kOk && disk->FreeBytes() >= bytes;
  });
}

/// Lower priorities first, on all disks, before anything of the newcomer's own rank goes.
Task<SegmentStore::Claim> SegmentStore::MakeRoom(LinkUse newcomer, Newcomer block) {
  const std::uint64_t bytes = RecordDiskBytes(block->block.length);
  Claim claim;
  if (HasLowerLinks(newcomer.priority))
    claim = co_await MakeRoomByLinks(newcomer, bytes, Ranks::kLower);
  if (!claim) claim = co_await MakeRoomByLinks(newcomer, bytes, Ranks::kAll);
  const bool by_worth = block->room == Room::kMayEvict && !newcomer.pinned;
  if (!claim && by_worth) claim = co_await MakeRoomByWorth(std::move(block));
  co_return claim;
}

bool SegmentStore::HasLowerLinks(LinkPriority priority) const {
  return std::ranges::any_of(parts_.links.All(), [priority](const auto& link) {
    return link->priority.load(std::memory_order_relaxed) < priority &&
           link->blocks.load(std::memory_order_relaxed) > 0;
  });
}

Task<SegmentStore::Claim> SegmentStore::MakeRoomByLinks(LinkUse newcomer, std::uint64_t bytes,
                                                        Ranks ranks) {
  const std::vector<Disk*> disks = WritableDisks();
  for (Disk* disk : disks) {
    auto make = [this, disk, newcomer, bytes, ranks]() -> Result<Claim> {
      std::vector<LinkUse> links = disk->Links();
      if (ranks == Ranks::kLower) {
        std::erase_if(links,
                      [&](const LinkUse& link) { return link.priority >= newcomer.priority; });
      }
      return MakeRoomOn(*disk, policy_->VictimLinks(newcomer, std::move(links), parts_.now()),
                        bytes);
    };
    const Result<Claim> claim = co_await disk->work().Run(std::move(make));
    if (claim && *claim) co_return *claim;
  }
  co_return nullptr;
}

Task<SegmentStore::Claim> SegmentStore::MakeRoomByWorth(Newcomer block) {
  const std::uint64_t bytes = RecordDiskBytes(block->block.length);
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    for (Disk* disk : WritableDisks()) {
      if (Claim claim = disk->Claim(bytes)) co_return claim;
    }
    auto choose = [this, block] { return ChooseByWorth(*block->link, block->block); };
    Result<LeavingBlocks> chosen = co_await offload_.Run(std::move(choose));
    if (!chosen) break;
    Disk& disk = chosen->disk();
    auto evict = [this, &disk, bytes, leaving = std::move(*chosen)]() mutable -> Result<Claim> {
      const Result<Disk::Removal> evicted = Evict(disk, leaving.Take());
      if (!evicted) return Fail(evicted.error());
      disk.FreeReleased();
      return disk.Claim(bytes);
    };
    const Result<Claim> claim = co_await disk.work().Run(std::move(evict));
    if (!claim) break;
    if (*claim) co_return *claim;
  }
  co_return nullptr;
}

SegmentStore::Claim SegmentStore::MakeRoomOn(Disk& disk, const std::vector<Uuid>& victims,
                                             std::uint64_t bytes) {
  // What is beyond a smaller size leaves with Shrink, in its order and at its pace.
  if (disk.IsShrinking() || !disk.CanHold(bytes)) return disk.Claim(bytes);
  for (const Uuid& victim : victims) {
    for (;;) {
      // A disk that has left service meanwhile gives no room back, however much goes.
      if (disk.state() != DiskState::kOk) return nullptr;
      if (Claim claim = disk.Claim(bytes)) return claim;
      std::vector<BlockIndex::Found> leaving;
      std::uint64_t gain = std::min(disk.FreeBytes(), bytes - 1);
      while (gain < bytes && leaving.size() < kRemoveAtOnce) {
        const auto oldest = disk.BeginRemoveOldest(victim);
        if (!oldest) break;
        gain += RecordDiskBytes(oldest->block.length);
        leaving.push_back(*oldest);
      }
      if (leaving.empty()) break;
      if (!Evict(disk, leaving)) return nullptr;
    }
  }
  return disk.Claim(bytes);
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
Result<LeavingBlocks> SegmentStore::ChooseByWorth(const LinkState& link, const BlockId& block) {
  const LinkPriority priority = link.priority.load(std::memory_order_relaxed);
  const std::uint64_t bytes = RecordDiskBytes(block.length);
  Disk* disk = nullptr;
  const auto draw = [&](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
    const std::optional<BlockIndex::Found> found = parts_.index.Pick(random);
    if (!found || found->pinned) return std::nullopt;
    const Disk& of = *disks_[found->place.disk];
    if (disk != nullptr && disk != &of) return std::nullopt;
    if (of.state() != DiskState::kOk || of.IsShrinking()) return std::nullopt;
    const auto lies_in = of.LinkOf(found->place.segment);
    if (!lies_in || lies_in->pinned.load(std::memory_order_relaxed)) return std::nullopt;
    if (lies_in->priority.load(std::memory_order_relaxed) > priority) return std::nullopt;
    return VictimChoice::Drawn{*found, lies_in->id};
  };
  std::vector<BlockIndex::Found> leaving;
  std::uint64_t gain = 0;
  while (gain < bytes && (disk == nullptr || !disk->HasRoom(bytes - gain))) {
    const bool enough = leaving.size() == kRemoveAtOnce;
    const auto victim = enough ? std::nullopt : TakeVictim(link.id, block, draw);
    if (!victim) {
      for (const BlockIndex::Found& found : leaving) parts_.index.CancelRemove(found.handle);
      return Fail(Code::kOverloaded, "nothing cached is worth less than " + block.ToString());
    }
    disk = disks_[victim->place.disk].get();
    gain += RecordDiskBytes(victim->block.length);
    leaving.push_back(*victim);
  }
  if (disk == nullptr) return Fail(Code::kInternal, "a block without bytes");
  return LeavingBlocks(*disk, std::move(leaving));
}

/// Within the quota of its link. There the link is a cache of that size: only its own blocks go,
/// for a pinned block the oldest, for any other those that its jobs want less.
Task<SegmentStore::Hold> SegmentStore::MakeRoomToHold(Newcomer block, bool pinned) {
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    if (block->link->pinned.load(std::memory_order_relaxed)) break;
    const bool made = pinned ? co_await TrimForPinned(block) : co_await MakeRoomInQuota(block);
    // Also what the last attempt has made is taken, or it would have gone for nothing.
    if (Hold hold = QuotaHold::Take(block->link, block->block.length)) co_return hold;
    if (!made) break;
  }
  co_return nullptr;
}

/// True: something went.
Task<bool> SegmentStore::TrimForPinned(Newcomer block) {
  const std::uint64_t length = block->block.length;
  bool made = false;
  for (const auto& each : disks_) {
    auto trim = [this, disk = each.get(), link = block->link, length]() -> Result<std::uint64_t> {
      Evicted sum;
      return TrimOn(*disk, *link, length, sum);
    };
    const Result<std::uint64_t> gone = co_await each->work().Run(std::move(trim));
    made = made || (gone && *gone > 0);
    if (gone && *gone >= length) break;
  }
  co_return made;
}

/// True: what the block lacked when it was looked at has gone.
Task<bool> SegmentStore::MakeRoomInQuota(Newcomer block) {
  auto choose = [this, block] { return ChooseInQuota(*block->link, block->block); };
  Result<std::vector<LeavingBlocks>> chosen = co_await offload_.Run(std::move(choose));
  if (!chosen) co_return false;
  const Result<Removed> removed = co_await RemoveChosen(std::move(*chosen), BlockLoss::kOverQuota);
  if (!removed) co_return false;
  parts_.counters.trimmed_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  block->link->evicted_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  co_return true;
}

/// All that must go for the block, or nothing.
Result<std::vector<LeavingBlocks>> SegmentStore::ChooseInQuota(const LinkState& link,
                                                               const BlockId& block) {
  const auto draw = [&](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
    const Disk& disk = *disks_[(random & UINT32_MAX) % disks_.size()];
    if (disk.state() != DiskState::kOk) return std::nullopt;
    const std::optional<BlockIndex::Found> found = disk.Pick(link.id, random);
    if (!found) return std::nullopt;
    return VictimChoice::Drawn{*found, link.id};
  };
  std::optional<std::uint64_t> lacks = link.Lacks(block.length);
  // More than the block takes is a quota that was lowered: TrimToQuotas is at it, and many that
  // come meanwhile would each free all of it.
  if (lacks) lacks = std::min<std::uint64_t>(*lacks, block.length);
  std::vector<BlockIndex::Found> leaving;
  std::uint64_t gain = 0;
  while (lacks && gain < *lacks) {
    const bool enough = leaving.size() == kRemoveAtOnce;
    const auto victim = enough ? std::nullopt : TakeVictim(link.id, block, draw);
    if (!victim) break;
    gain += victim->block.length;
    leaving.push_back(*victim);
  }
  if (lacks && gain >= *lacks) return ByDisk(leaving);
  for (const BlockIndex::Found& found : leaving) parts_.index.CancelRemove(found.handle);
  return Fail(Code::kOverloaded, "the link's blocks are worth no less than " + block.ToString());
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
