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
