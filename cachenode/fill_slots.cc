#include "cachenode/fill_slots.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace forebay {

FillSlots::Queue* FillSlots::First() {
  const auto first = std::ranges::find_if_not(queues_, &Queue::empty);
  return first == queues_.end() ? nullptr : &*first;
}

FillSlots::Queue FillSlots::GrantFree() {
  Queue granted;
  while (free_ > 0) {
    Queue* const queue = First();
    if (queue == nullptr) break;
    const bool background = queue->front()->urgency_ != Urgency::kReader;
    if (background && in_share_ >= background_share_) break;
    std::shared_ptr<Turn> next = std::move(queue->front());
    queue->pop_front();
    --free_;
    if (background) ++in_share_;
    next->in_share_ = background;
    next->granted_ = true;
    granted.push_back(std::move(next));
  }
  return granted;
}

void FillSlots::Wake(const Queue& granted) {
  for (const std::shared_ptr<Turn>& turn : granted) turn->called_.NotifyAll();
}

Task<Status> FillSlots::Take(std::shared_ptr<Turn> turn, Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = turn->called_.Enlist(executor);
  {
    const std::scoped_lock lock(mutex_);
    Queue& queue = QueueOf(*turn);
    if (queue.size() >= queue_limit_)
      co_return Fail(Code::kOverloaded, "too many blocks wait for S3 at this node");
    queue.push_back(turn);
    // There are no free slots that others in line could have, so at most this one is granted.
    (void)GrantFree();
    if (turn->granted_) co_return Status();
  }
  const bool called = co_await ticket.Wait(deadline);
  const std::scoped_lock lock(mutex_);
  // A slot that was granted as the deadline passed is a slot all the same.
  if (called || turn->granted_) co_return Status();
  std::erase(QueueOf(*turn), turn);
  co_return Fail(Code::kTimeout, "too many blocks wait for S3 at this node");
}

void FillSlots::Return(const std::shared_ptr<Turn>& turn) {
  Queue granted;
  {
    const std::scoped_lock lock(mutex_);
    turn->granted_ = false;
    ++free_;
    if (std::exchange(turn->in_share_, false)) --in_share_;
    granted = GrantFree();
  }
  Wake(granted);
}

void FillSlots::Promote(const std::shared_ptr<Turn>& turn, Urgency urgency) {
  Queue granted;
  {
    const std::scoped_lock lock(mutex_);
    if (turn->urgency_ <= urgency) return;
    Queue& before = QueueOf(*turn);
    turn->urgency_ = urgency;
    const auto waiting = std::ranges::find(before, turn);
    if (waiting == before.end()) return;  // it has its slot, or is on its way to Take
    before.erase(waiting);
    QueueOf(*turn).push_back(turn);
    granted = GrantFree();
  }
  Wake(granted);
}

Urgency FillSlots::UrgencyOf(const Turn& turn) const {
  const std::scoped_lock lock(mutex_);
  return turn.urgency_;
}

bool FillSlots::HasRoomInBackground() const {
  const std::scoped_lock lock(mutex_);
  std::size_t ahead = in_share_;
  for (std::size_t urgency = 0; urgency < kUrgencies; ++urgency)
    if (static_cast<Urgency>(urgency) != Urgency::kReader) ahead += queues_[urgency].size();
  return free_ > 0 && ahead < background_share_;
}

std::size_t FillSlots::free() const {
  const std::scoped_lock lock(mutex_);
  return free_;
}

}  // namespace forebay
