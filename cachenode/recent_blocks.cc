#include "cachenode/recent_blocks.h"

#include <iterator>
#include <utility>

namespace forebay {

void RecentBlocks::Add(const Uuid& link, std::shared_ptr<const Fill> fill) {
  const std::scoped_lock lock(mutex_);
  const BlockId block = fill->block();
  auto found = by_block_.find(block);
  if (found != by_block_.end()) Drop(found->second);
  bytes_ += block.length;
  order_.push_front(Entry{link, std::move(fill)});
  by_block_[block] = order_.begin();
  while (bytes_ > limit_ && order_.size() > 1) Drop(std::prev(order_.end()));
}

std::optional<Cells> RecentBlocks::Read(const BlockId& block, BlockRange range) {
  std::shared_ptr<const Fill> fill;
  {
    const std::scoped_lock lock(mutex_);
    auto found = by_block_.find(block);
    if (found == by_block_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, found->second);
    fill = order_.front().fill;
  }
  std::optional<Result<Cells>> cells = fill->TryRead(range);
  if (!cells || !*cells) return std::nullopt;
  (*cells)->tier = Tier::kLocal;
  return std::move(**cells);
}

bool RecentBlocks::Contains(const BlockId& block) const {
  const std::scoped_lock lock(mutex_);
  return by_block_.contains(block);
}

void RecentBlocks::Remove(const BlockId& block) {
  const std::scoped_lock lock(mutex_);
  auto found = by_block_.find(block);
  if (found != by_block_.end()) Drop(found->second);
}

void RecentBlocks::RemoveLink(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  for (auto entry = order_.begin(); entry != order_.end();) {
    const auto next = std::next(entry);
    if (entry->link == link) Drop(entry);
    entry = next;
  }
}

void RecentBlocks::Clear() {
  const std::scoped_lock lock(mutex_);
  order_.clear();
  by_block_.clear();
  bytes_ = 0;
}

std::uint64_t RecentBlocks::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

void RecentBlocks::Drop(Order::iterator entry) {
  bytes_ -= entry->fill->block().length;
  by_block_.erase(entry->fill->block());
  order_.erase(entry);
}

}  // namespace forebay
