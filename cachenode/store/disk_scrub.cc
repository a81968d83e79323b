#include <fcntl.h>

#include "cachenode/store/disk.h"

// Which block of a disk is read and compared next, so that a pass meets each one once.
namespace forebay {

std::optional<BlockId> Disk::NextToScrub() {
  while (scrub_next_ == scrub_blocks_.size()) {
    scrub_next_ = 0;
    scrub_blocks_.clear();
    const std::optional<std::uint32_t> segment = SegmentFrom(scrub_from_);
    if (!segment) {
      if (scrub_from_ > 0) NoteScrub(0);
      scrub_from_ = 0;
      return std::nullopt;
    }
    // Noted as it begins: after a restart it is read again, not left out.
    NoteScrub(*segment);
    scrub_from_ = std::uint64_t{*segment} + 1;
    for (const BlockHandle handle : BlocksIn(*segment)) {
      const auto found = parts_.index.LookAt(handle, number_, *segment, {.pinned = false}).found;
      if (found) scrub_blocks_.push_back(found->block);
    }
  }
  return scrub_blocks_[scrub_next_++];
}

std::optional<std::uint32_t> Disk::SegmentFrom(std::uint64_t number) const {
  if (number > UINT32_MAX) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  const auto segment = segments_.lower_bound(static_cast<std::uint32_t>(number));
  return segment == segments_.end() ? std::nullopt : std::optional(segment->first);
}

/// If the place is lost, a part of the disk is read once more: no reason to stop.
void Disk::NoteScrub(std::uint32_t segment) {
  if (Status noted = db_->SetScrubPlace(segment); !noted) CountWriteError(EIO);
}

FileDescriptor Disk::OpenPastCache(std::uint32_t segment) const {
  const std::shared_ptr<LinkState> link = LinkOf(segment);
  if (!link) {
    errno = ENOENT;
    return FileDescriptor();
  }
  return directory_.OpenSegment(link->id, segment, O_RDONLY | O_DIRECT);
}

}  // namespace forebay
