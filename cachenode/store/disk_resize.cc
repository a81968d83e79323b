#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <vector>

#include "cachenode/store/disk.h"

// How a disk gets another size while it serves.
namespace forebay {

/// On disk, of blocks that are pinned one by one or with their link.
std::uint64_t Disk::PinnedBytes() const {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> partly;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [number, segment] : segments_) {
      if (segment->link->pinned.load(std::memory_order_relaxed)) {
        bytes += segment->live_bytes;
      } else if (segment->link->pinned_bytes.load(std::memory_order_relaxed) > 0) {
        partly.push_back(number);
      }
    }
  }
  // One by one: of a large disk they are tens of millions of blocks, and others want the lock.
  for (const std::uint32_t number : partly) bytes += PinnedBytesIn(number);
  return bytes;
}

std::uint64_t Disk::PinnedBytesIn(std::uint32_t segment) const {
  std::vector<BlockHandle> blocks;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = segments_.find(segment);
    if (found == segments_.end()) return 0;
    blocks.assign(found->second->blocks.begin(), found->second->blocks.end());
  }
  std::uint64_t bytes = 0;
  for (const BlockHandle handle : blocks) {
    const BlockIndex::Removal look =
        parts_.index.LookAt(handle, number_, segment, BlockIndex::Spare());
    if (look.pinned) bytes += RecordDiskBytes(look.length);
  }
  return bytes;
}

Status Disk::Resize(std::uint64_t capacity_bytes) {
  const Result<std::uint64_t> capacity = CheckedCapacity(capacity_bytes);
  if (!capacity) return Fail(capacity.error());
  const std::uint64_t old = capacity_.load(std::memory_order_relaxed);
  if (*capacity == old) return {};
  // At a start the configuration is obeyed (ShrinkToCapacity); a running node is asked to keep what
  // it was told to keep.
  const std::uint64_t pinned = *capacity < old ? PinnedBytes() : 0;
  if (LimitOf(*capacity) == 0) {
    return Fail(
        Code::kInvalid,
        fmt::format("cache directory {} may use {} bytes, which its index of {} bytes takes "
                    "alone until this node is started again: choose a larger size, or "
                    "start it again; it goes on with {} bytes",
                    path_, *capacity, index_bytes_.load(), old));
  }
  if (pinned > LimitOf(*capacity)) {
    return Fail(Code::kInvalid,
                fmt::format("cache directory {} may use {} bytes, and its pinned blocks and its "
                            "index need {}: unpin some (`forebay pins`), or choose a larger size; "
                            "it goes on with {} bytes",
                            path_, *capacity, pinned + (*capacity - LimitOf(*capacity)), old));
  }
  capacity_.store(*capacity, std::memory_order_relaxed);
  const std::uint64_t surplus = Surplus();
  // A larger size holds at once; a smaller one when there is no more than that.
  if (surplus == 0) EndShrinking();
  if (surplus == 0) {
    spdlog::info("{} may use {} bytes from now on, before {}", path_, *capacity, old);
  } else {
    spdlog::info("{} is to use {} bytes instead of {}: {} bytes of blocks leave in the background",
                 path_, *capacity, old, surplus);
  }
  return {};
}

std::uint64_t Disk::Surplus() const {
  const std::uint64_t used = used_.load(std::memory_order_relaxed);
  const std::uint64_t limit = LimitOf(capacity_.load(std::memory_order_relaxed));
  return used > limit ? used - limit : 0;
}

void Disk::EndShrinking() {
  announced_.store(capacity_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace forebay
