#include <string>
#include <utility>

#include "cachenode/store/segment_store.h"
#include "common/base/failpoint.h"

// How the store takes over which of its blocks are pinned one by one.
namespace forebay {

Task<Status> SegmentStore::TakePins(PinStep step) {
  auto work = [this, step = std::move(step)] { return TakePinsNow(step); };
  Status taken = co_await offload_.Run(std::move(work));
  co_return taken;
}

Status SegmentStore::TakePinsNow(const PinStep& step) {
  const std::shared_ptr<LinkState> link = parts_.links.Get(step.link);
  {
    const std::scoped_lock lock(link->mutex);
    if (step.begin) link->pin_sync = step.sync;
    if (link->pin_sync != step.sync || step.sync == 0)
      return Fail(Code::kStale, "another take-over of the link's pins has begun");
  }
  if (step.begin) {
    for (const auto& disk : disks_) {
      for (const std::uint32_t segment : disk->SegmentsOf(step.link)) {
        for (const BlockHandle handle : disk->BlocksIn(segment))
          parts_.index.Unmark(handle, disk->number(), segment);
      }
    }
  }
  if (Status pinned = PinBlocks(step.blocks); !pinned) return pinned;
  failpoint("store.in_pins");
  return step.end ? SweepPins(*link, step.version) : Status();
}

Status SegmentStore::PinBlocks(const std::vector<BlockId>& blocks) {
  std::vector<std::vector<BlockIndex::Found>> by_disk(disks_.size());
  for (const BlockId& block : blocks) {
    const auto found = parts_.index.Pin(block);
    if (found && !found->pinned) by_disk[found->place.disk].push_back(*found);
  }
  for (std::size_t i = 0; i < by_disk.size(); ++i) {
    if (by_disk[i].empty()) continue;
    if (Status put = disks_[i]->PutPins(by_disk[i]); !put) return put;
  }
  return {};
}

Status SegmentStore::SweepPins(LinkState& link, std::uint64_t version) {
  for (const auto& disk : disks_) {
    if (disk->state() == DiskState::kQuarantined) continue;
    std::vector<BlockIndex::Found> unpinned;
    for (const std::uint32_t segment : disk->SegmentsOf(link.id)) {
      for (const BlockHandle handle : disk->BlocksIn(segment)) {
        if (auto found = parts_.index.UnpinUnmarked(handle, disk->number(), segment))
          unpinned.push_back(*found);
      }
    }
    if (Status ended = disk->EndPins(link.id, version, unpinned); !ended) return ended;
    if (!unpinned.empty()) disk->LookAgain(link.id);
  }
  const std::scoped_lock lock(link.mutex);
  link.pin_sync = 0;
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
