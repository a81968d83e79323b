#include "cachenode/recent_blocks.h"

#include <iterator>
#include <utility>

namespace forebay {

void RecentBlocks::Add(const Uuid& link, std::shared_ptr<const Fill> fill) {
  const std::scoped_lock lock(mutex_);
  const BlockId block = fill->block();
  auto found = by_block_.find(block);
  if (found != by_block_.end()) Drop(found->second);
  const bool read_through = fill->TakeReadThrough();
  Order& order = read_through ? read_through_ : wanted_;
  order.push_front(Entry{link, std::move(fill), read_through});
  by_block_[block] = order.begin();
  bytes_ += block.length;
  if (read_through) read_through_bytes_ += block.length;
  MakeRoom();
}

void RecentBlocks::MakeRoom() {
  while (bytes_ > limit_ && by_block_.size() > 1) {
    const bool enough = read_through_bytes_ > limit_ / 4 || wanted_.empty();
    Drop(std::prev(enough ? read_through_.end() : wanted_.end()));
  }
}

std::optional<Cells> RecentBlocks::Read(const BlockId& block, BlockRange range) {
  std::shared_ptr<const Fill> fill;
  {
    const std::scoped_lock lock(mutex_);
    auto found = by_block_.find(block);
    if (found == by_block_.end()) return std::nullopt;
    fill = found->second->fill;
  }
  std::optional<Result<Cells>> cells = fill->TryRead(range);
  if (!cells || !*cells) return std::nullopt;
  Use(block, fill->TakeReadThrough());
  (*cells)->tier = Tier::kLocal;
  return std::move(**cells);
}

void RecentBlocks::Use(const BlockId& block, bool read_through) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_block_.find(block);
  if (found == by_block_.end()) return;
  Order& from = OrderOf(*found->second);
  if (found->second->read_through) read_through_bytes_ -= block.length;
  found->second->read_through = read_through;
  if (read_through) read_through_bytes_ += block.length;
  Order& to = OrderOf(*found->second);
  to.splice(to.begin(), from, found->second);
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
  for (Order* const order : {&wanted_, &read_through_}) {
    for (auto entry = order->begin(); entry != order->end();) {
      const auto next = std::next(entry);
      if (entry->link == link) Drop(entry);
      entry = next;
    }
  }
}

void RecentBlocks::Clear() {
  const std::scoped_lock lock(mutex_);
  wanted_.clear();
  read_through_.clear();
  by_block_.clear();
  bytes_ = 0;
  read_through_bytes_ = 0;
}

std::uint64_t RecentBlocks::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

void RecentBlocks::Drop(Order::iterator entry) {
  const BlockId block = entry->fill->block();
  bytes_ -= block.length;
  if (entry->read_through) read_through_bytes_ -= block.length;
  by_block_.erase(block);
  OrderOf(*entry).erase(entry);
}

}  // namespace forebay
