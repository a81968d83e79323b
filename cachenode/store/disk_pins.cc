#include <spdlog/spdlog.h>

#include <algorithm>

#include "cachenode/store/disk.h"

// Which blocks of a disk are pinned one by one, durably.
namespace forebay {
namespace {

std::vector<BlockId> BlocksOf(const std::vector<BlockIndex::Found>& found) {
  std::vector<BlockId> blocks;
  blocks.reserve(found.size());
  for (const BlockIndex::Found& one : found) blocks.push_back(one.block);
  return blocks;
}

}  // namespace

std::vector<std::uint32_t> Disk::SegmentsOf(const Uuid& link) const {
  const std::scoped_lock lock(mutex_);
  const auto numbers = by_link_.find(link);
  if (numbers == by_link_.end()) return {};
  return {numbers->second.begin(), numbers->second.end()};
}

std::vector<BlockHandle> Disk::BlocksIn(std::uint32_t segment) const {
  std::vector<BlockHandle> blocks;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = segments_.find(segment);
    if (found != segments_.end()) blocks = found->second->blocks;
  }
  // A handle that was used again in the same segment is there twice.
  std::ranges::sort(blocks);
  const auto copies = std::ranges::unique(blocks);
  blocks.erase(copies.begin(), copies.end());
  return blocks;
}

std::shared_ptr<LinkState> Disk::LinkOf(std::uint32_t segment) const {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(segment);
  return found == segments_.end() ? nullptr : found->second->link;
}

Status Disk::PutPins(const std::vector<BlockIndex::Found>& pinned) {
  for (const BlockIndex::Found& found : pinned) {
    if (const auto link = LinkOf(found.place.segment))
      link->pinned_bytes.fetch_add(found.block.length, std::memory_order_relaxed);
  }
  return db_->PutPins(BlocksOf(pinned));
}

Status Disk::EndPins(const Uuid& link, std::uint64_t version,
                     const std::vector<BlockIndex::Found>& unpinned) {
  for (const BlockIndex::Found& found : unpinned)
    parts_.links.Get(link)->pinned_bytes.fetch_sub(found.block.length, std::memory_order_relaxed);
  if (Status ended = db_->EndPins(link, version, BlocksOf(unpinned)); !ended) return ended;
  if (Status synced = db_->Sync(); !synced) return synced;
  const std::scoped_lock lock(mutex_);
  if (version == 0) {
    pins_versions_.erase(link);
  } else {
    pins_versions_[link] = version;
  }
  return {};
}

std::uint64_t Disk::PinsVersion(const Uuid& link) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pins_versions_.find(link);
  return found == pins_versions_.end() ? 0 : found->second;
}

std::vector<Uuid> Disk::LinksWithPinsVersion() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Uuid> links;
  for (const auto& [link, version] : pins_versions_) links.push_back(link);
  return links;
}

/// After the blocks: pins of blocks that are gone are forgotten.
Status Disk::RecoverPins() {
  std::vector<BlockId> gone;
  const Status read = db_->ForEachPin([&](const BlockId& block) {
    const auto place = parts_.index.Find(block);
    if (!place || place->disk != number_) {
      gone.push_back(block);
      return;
    }
    parts_.index.Pin(block);
    if (const auto link = LinkOf(place->segment)) {
      link->pinned_bytes.fetch_add(block.length, std::memory_order_relaxed);
    }
  });
  if (!read) return read;
  if (Status deleted = db_->Delete({}, gone); !deleted) return deleted;
  Result<std::vector<std::pair<Uuid, std::uint64_t>>> versions = db_->PinsVersions();
  if (!versions) return Fail(std::move(versions.error()));
  pins_versions_ = {versions->begin(), versions->end()};
  return {};
}

}  // namespace forebay
