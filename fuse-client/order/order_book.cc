#include "fuse-client/order/order_book.h"

#include <fmt/format.h>

#include <utility>

namespace forebay {

void OrderBook::OnMore(std::function<void()> call) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(call));
  const std::scoped_lock lock(mutex_);
  on_more_ = std::move(shared);
}

Status OrderBook::RoomFor(const std::string& job, std::size_t files) const {
  const std::scoped_lock lock(mutex_);
  return RoomForLocked(job, files);
}

Status OrderBook::RoomForLocked(const std::string& job, std::size_t files) const {
  if (!orders_.contains(job) && orders_.size() >= kMaxJobs) {
    return Fail(Code::kOverloaded,
                fmt::format("{} jobs have announced an order through this mount: one more has "
                            "no room until an earlier one announces an empty order",
                            kMaxJobs));
  }
  for (const auto& [other, known] : orders_) {
    if (other != job) files += known.size();
  }
  if (files > kMaxFiles) {
    return Fail(Code::kOverloaded,
                fmt::format("the announced orders of all jobs of this mount would have {} files, "
                            "and may have {}: announce the next epoch alone",
                            files, kMaxFiles));
  }
  return {};
}

Status OrderBook::Announce(const std::string& job, AnnouncedOrder order) {
  std::shared_ptr<const std::function<void()>> tell;
  {
    const std::scoped_lock lock(mutex_);
    Status room = RoomForLocked(job, order.size());
    if (!room) return room;
    if (order.size() == 0) {
      orders_.erase(job);
    } else {
      orders_.insert_or_assign(job, std::move(order));
    }
    count_.store(orders_.size(), std::memory_order_release);
    tell = on_more_;
  }
  if (tell) (*tell)();
  return {};
}

void OrderBook::NoteReadOf(const std::string& job, std::uint64_t nodeid) {
  std::shared_ptr<const std::function<void()>> tell;
  {
    const std::scoped_lock lock(mutex_);
    const auto row = orders_.find(job);
    if (row == orders_.end()) return;
    const std::size_t before = row->second.position();
    row->second.NoteRead(nodeid);
    if (row->second.position() == before) return;
    tell = on_more_;
  }
  if (tell) (*tell)();
}

std::optional<OrderBook::Next> OrderBook::Take(const AnnouncedOrder::Window& window,
                                               const AnnouncedOrder::SizeOf& size_of) {
  const std::scoped_lock lock(mutex_);
  auto row = orders_.upper_bound(last_taken_);
  for (std::size_t i = 0; i < orders_.size(); ++i, ++row) {
    if (row == orders_.end()) row = orders_.begin();
    const std::optional<AnnouncedOrder::Next> file = row->second.Take(window, size_of);
    if (!file) continue;
    last_taken_ = row->first;
    return Next{.job = row->first, .file = *file};
  }
  return std::nullopt;
}

bool OrderBook::IsAhead(const Next& next) const {
  const std::scoped_lock lock(mutex_);
  const auto row = orders_.find(next.job);
  return row != orders_.end() && row->second.IsAhead(next.file);
}

std::vector<OrderBook::State> OrderBook::States() const {
  const std::scoped_lock lock(mutex_);
  std::vector<State> states;
  states.reserve(orders_.size());
  for (const auto& [job, order] : orders_) {
    states.push_back({.job = job, .files = order.size(), .position = order.position()});
  }
  return states;
}

}  // namespace forebay
