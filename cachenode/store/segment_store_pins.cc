#include <algorithm>
#include <string>
#include <utility>

#include "cachenode/store/segment_store.h"
#include "common/base/failpoint.h"

// How the store takes over which of its blocks are pinned one by one.
namespace forebay {

Task<Status> SegmentStore::TakePins(PinStep step) {
  const std::shared_ptr<LinkState> link = parts_.links.Get(step.link);
  {
    const std::scoped_lock lock(link->mutex);
    if (step.begin) link->pin_sync = step.sync;
    if (link->pin_sync != step.sync || step.sync == 0)
      co_return Fail(Code::kStale, "another take-over of the link's pins has begun");
  }
  if (step.begin) {
    auto unmark = [this, id = step.link] { return UnmarkPins(id); };
    Status unmarked = co_await offload_.Run(std::move(unmark));
    if (!unmarked) co_return unmarked;
  }
  Status pinned = co_await PinBlocks(std::move(step.blocks));
  failpoint("store.in_pins");
  if (!pinned || !step.end) co_return pinned;
  Status swept = co_await SweepPins(link, step.version);
  co_return swept;
}

/// In memory alone.
Status SegmentStore::UnmarkPins(const Uuid& link) {
  for (const auto& disk : disks_) {
    for (const std::uint32_t segment : disk->SegmentsOf(link)) {
      for (const BlockHandle handle : disk->BlocksIn(segment))
        parts_.index.Unmark(handle, disk->number(), segment);
    }
  }
  return {};
}

Task<Status> SegmentStore::PinBlocks(std::vector<BlockId> blocks) {
  std::vector<std::vector<BlockIndex::Found>> by_disk(disks_.size());
  for (const BlockId& block : blocks) {
    const auto found = parts_.index.Pin(block);
    if (found && !found->pinned) by_disk[found->place.disk].push_back(*found);
  }
  for (std::size_t i = 0; i < by_disk.size(); ++i) {
    if (by_disk[i].empty()) continue;
    Disk& disk = *disks_[i];
    auto work = [&disk, found = std::move(by_disk[i])] { return disk.PutPins(found); };
    Status put = co_await disk.work().Run(std::move(work));
    if (!put) co_return put;
  }
  co_return Status();
}

Task<Status> SegmentStore::SweepPins(std::shared_ptr<LinkState> link, std::uint64_t version) {
  for (const auto& each : disks_) {
    if (each->state() == DiskState::kQuarantined) continue;
    auto work = [this, disk = each.get(), id = link->id, version] {
      return SweepPinsOn(*disk, id, version);
    };
    Status swept = co_await each->work().Run(std::move(work));
    if (!swept) co_return swept;
  }
  const std::scoped_lock lock(link->mutex);
  link->pin_sync = 0;
  co_return Status();
}

Status SegmentStore::SweepPinsOn(Disk& disk, const Uuid& link, std::uint64_t version) {
  std::vector<BlockIndex::Found> unpinned;
  for (const std::uint32_t segment : disk.SegmentsOf(link)) {
    for (const BlockHandle handle : disk.BlocksIn(segment)) {
      if (auto found = parts_.index.UnpinUnmarked(handle, disk.number(), segment))
        unpinned.push_back(*found);
    }
  }
  if (Status ended = disk.EndPins(link, version, unpinned); !ended) return ended;
  if (!unpinned.empty()) {
    disk.LookAgain(link);
    parts_.NoteRoom();
  }
  return {};
}

bool SegmentStore::IsPinned(const BlockId& block) const {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  if (!place) return false;
  const std::shared_ptr<LinkState> link = disks_[place->disk]->LinkOf(place->segment);
  if (link && link->pinned.load(std::memory_order_relaxed)) return true;
  return parts_.index.LookAt(block, BlockIndex::Spare()).pinned;
}

Task<Result<PinnedPart>> SegmentStore::PinnedAt(Uuid link, SegmentPlace from,
                                                std::chrono::hours unused_for) {
  auto look = [this, link, from, unused_for]() -> Result<PinnedPart> {
    return PinnedNow(link, from, unused_for);
  };
  Result<PinnedPart> part = co_await offload_.Run(std::move(look));
  co_return part;
}

PinnedPart SegmentStore::PinnedNow(const Uuid& link, SegmentPlace from,
                                   std::chrono::hours unused_for) {
  BlockIndex::Spare spare = SpareOf({.unused_for = unused_for});
  spare.pinned = false;
  const bool whole = parts_.links.Get(link)->pinned.load(std::memory_order_relaxed);
  PinnedPart part;
  for (; from.disk < disks_.size(); from = {from.disk + 1, 0}) {
    const Disk& disk = *disks_[from.disk];
    if (disk.state() == DiskState::kQuarantined) continue;
    const std::vector<std::uint32_t> segments = disk.SegmentsOf(link);
    const auto segment = std::ranges::lower_bound(segments, from.segment);
    if (segment == segments.end()) continue;
    for (const BlockHandle handle : disk.BlocksIn(*segment)) {
      const auto found = parts_.index.LookAt(handle, disk.number(), *segment, spare).found;
      if (found && (whole || found->pinned)) part.blocks.push_back(found->block);
    }
    part.next = SegmentPlace{from.disk, std::uint64_t{*segment} + 1};
    break;
  }
  return part;
}

Task<Result<Evicted>> SegmentStore::Release(std::vector<BlockId> blocks,
                                            std::chrono::hours unused_for,
                                            std::function<bool(const BlockId&)> keep) {
  Evicted total;
  for (std::size_t from = 0; from < blocks.size(); from += kRemoveAtOnce) {
    const std::size_t count = std::min(kRemoveAtOnce, blocks.size() - from);
    const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<BlockId> batch(first, first + static_cast<std::ptrdiff_t>(count));
    auto choose = [this, unused_for, keep, batch = std::move(batch)] {
      return ChooseReleased(batch, unused_for, keep);
    };
    Result<std::vector<LeavingBlocks>> leaving = co_await offload_.Run(std::move(choose));
    if (!leaving) co_return Fail(std::move(leaving.error()));
    const Result<Removed> removed =
        co_await RemoveChosen(std::move(*leaving), BlockLoss::kReleased);
    if (!removed) co_return Fail(removed.error());
    total += removed->evicted;
    parts_.counters.released_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  }
  if (total.blocks > 0) parts_.NoteRoom();
  co_return total;
}

/// `keep` is asked when the block is on its way out: whoever asks this node for it from then on is
/// told that it is not here, and whoever was told otherwise was told before.
Result<std::vector<LeavingBlocks>> SegmentStore::ChooseReleased(
    const std::vector<BlockId>& blocks, std::chrono::hours unused_for,
    const std::function<bool(const BlockId&)>& keep) {
  BlockIndex::Spare spare = SpareOf({.unused_for = unused_for});
  spare.pinned = false;
  std::vector<BlockIndex::Found> leaving;
  for (const BlockId& block : blocks) {
    const std::optional<BlockIndex::Found> found = parts_.index.BeginRemove(block, spare).found;
    if (!found) continue;
    if (keep(block)) {
      disks_[found->place.disk]->CancelRemoval({*found});
    } else {
      leaving.push_back(*found);
    }
  }
  return ByDisk(leaving);
}

std::unordered_map<Uuid, std::uint64_t> SegmentStore::PinsVersions() const {
  std::unordered_map<Uuid, std::uint64_t> versions;
  for (const auto& disk : disks_) {
    if (disk->state() == DiskState::kQuarantined) continue;
    for (const Uuid& link : disk->LinksWithPinsVersion())
      versions.emplace(link, disk->PinsVersion(link));
  }
  // A disk that has another one, or none, has not taken them over.
  for (const auto& disk : disks_) {
    if (disk->state() == DiskState::kQuarantined) continue;
    for (auto& [link, version] : versions) {
      if (disk->PinsVersion(link) != version) version = 0;
    }
  }
  return versions;
}

}  // namespace forebay
