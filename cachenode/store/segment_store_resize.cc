#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>

#include "cachenode/store/segment_store.h"

// A disk that is to be smaller than what it holds gives blocks away, step by step.
namespace forebay {

Task<Status> SegmentStore::Resize(std::size_t number, std::uint64_t capacity_bytes) {
  Disk& disk = *disks_[number];
  auto resize = [&disk, capacity_bytes] { return disk.Resize(capacity_bytes); };
  Status resized = co_await disk.work().Run(std::move(resize));
  if (resized) parts_.NoteRoom();
  co_return resized;
}

Task<Result<Evicted>> SegmentStore::Shrink(std::size_t number, std::size_t blocks) {
  Disk& disk = *disks_[number];
  // What is out of service is not touched: its turn is when it is back.
  if (!disk.IsShrinking() || disk.state() != DiskState::kOk) co_return Evicted();
  auto shrink = [this, &disk, blocks] { return ShrinkNow(disk, blocks); };
  Result<Evicted> gone = co_await disk.work().Run(std::move(shrink));
  co_return gone;
}

Result<Evicted> SegmentStore::ShrinkNow(Disk& disk, std::size_t blocks) {
  disk.FreeReleased();
  std::vector<LinkUse> links = disk.Links();
  std::erase_if(links, [](const LinkUse& link) { return link.pinned; });
  std::ranges::sort(links, {},
                    [](const LinkUse& link) { return std::tuple(link.priority, link.last_use); });
  const std::uint64_t surplus = disk.Surplus();
  std::vector<BlockIndex::Found> leaving;
  std::uint64_t gain = 0;
  for (const LinkUse& link : links) {
    while (gain < surplus && leaving.size() < blocks) {
      const auto oldest = disk.BeginRemoveOldest(link.link);
      if (!oldest) break;
      gain += RecordDiskBytes(oldest->block.length);
      leaving.push_back(*oldest);
    }
  }
  Evicted gone;
  if (!leaving.empty()) {
    const Result<Disk::Removal> removed = Evict(disk, leaving);
    if (!removed) return Fail(removed.error());
    gone = removed->evicted;
  }
  if (disk.Surplus() == 0) {
    disk.EndShrinking();
    spdlog::info("{} has its new size of {} bytes", disk.Usage().path, disk.Usage().capacity_bytes);
  }
  return gone;
}

}  // namespace forebay
