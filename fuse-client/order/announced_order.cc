#include "fuse-client/order/announced_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace forebay {
namespace {

std::size_t Distance(std::size_t a, std::size_t b) { return a < b ? b - a : a - b; }

}  // namespace

AnnouncedOrder::AnnouncedOrder(std::vector<std::uint64_t> nodeids) : nodeids_(std::move(nodeids)) {
  nodeids_.resize(std::min(nodeids_.size(), kMaxFiles));
  places_.resize(nodeids_.size());
  std::iota(places_.begin(), places_.end(), 0U);
  std::ranges::sort(places_, [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(nodeids_[a], a) < std::pair(nodeids_[b], b);
  });
}

std::optional<std::size_t> AnnouncedOrder::NearestPlaceOf(std::uint64_t nodeid) const {
  const auto of_file = std::ranges::equal_range(
      places_, nodeid, {}, [this](std::uint32_t place) { return nodeids_[place]; });
  if (of_file.empty()) return std::nullopt;
  const auto behind = std::ranges::lower_bound(of_file, position_);
  if (behind == of_file.end()) return *std::prev(behind);
  if (behind == of_file.begin()) return *behind;
  const std::size_t before = *std::prev(behind);
  return Distance(before, position_) < Distance(*behind, position_) ? before : *behind;
}

void AnnouncedOrder::NoteRead(std::uint64_t nodeid) {
  const std::optional<std::size_t> place = NearestPlaceOf(nodeid);
  if (!place) return;
  if (Distance(*place, position_) > kRegion) return NoteStray(*place);
  strays_ = 0;
  if (*place >= position_) MoveTo(*place + 1);
}

// One read elsewhere is a validation sample or another program.
void AnnouncedOrder::NoteStray(std::size_t place) {
  strays_ = Distance(place, last_stray_) <= kRegion ? strays_ + 1 : 1;
  last_stray_ = place;
  if (strays_ < kStraysForJump) return;
  strays_ = 0;
  Resume(place + 1);
}

void AnnouncedOrder::Resume(std::size_t position) {
  position_ = std::min(position, nodeids_.size());
  next_ = position_;
  ahead_.clear();
  ahead_bytes_ = 0;
}

void AnnouncedOrder::MoveTo(std::size_t position) {
  for (; position_ < position; ++position_) {
    if (ahead_.empty()) continue;
    ahead_bytes_ -= ahead_.front();
    ahead_.pop_front();
  }
  next_ = std::max(next_, position_);
}

std::optional<AnnouncedOrder::Next> AnnouncedOrder::Take(const Window& window,
                                                         const SizeOf& size_of) {
  while (next_ < nodeids_.size() && ahead_.size() < window.files && ahead_bytes_ < window.bytes) {
    const std::size_t place = next_++;
    const std::optional<std::uint64_t> size = size_of(nodeids_[place]);
    ahead_.push_back(size.value_or(0));
    ahead_bytes_ += size.value_or(0);
    if (!size) continue;
    return Next{
        .nodeid = nodeids_[place], .size = *size, .place = place, .sign = place % kSignEvery == 0};
  }
  return std::nullopt;
}

}  // namespace forebay
