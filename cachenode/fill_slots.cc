#include "cachenode/fill_slots.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace forebay {

FillSlots::Queue* FillSlots::First() {
  const auto first = std::ranges::find_if_not(queues_, &Queue::empty);
  return first == queues_.end() ? nullptr : &*first;
}

// Under the mutex, and so is the next.
std::size_t FillSlots::WaitingInBackground() const {
  std::size_t waiting = 0;
  for (std::size_t urgency = 0; urgency < kUrgencies; ++urgency)
    if (static_cast<Urgency>(urgency) != Urgency::kReader) waiting += queues_[urgency].size();
  return waiting;
}

std::size_t FillSlots::LimitInBackground() {
  return share_.Limit(in_share_, slots_ - free_ - in_share_, Clock::now());
}

FillSlots::Queue FillSlots::GrantFree() {
  Queue granted;
  while (free_ > 0) {
    Queue* const queue = First();
    if (queue == nullptr) break;
    const bool background = queue->front()->urgency_ != Urgency::kReader;
    if (background && in_share_ >= LimitInBackground()) break;
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

// The background's limit may have grown since those who wait in it came, so that they are granted
// slots, too.
Result<bool> FillSlots::Enqueue(const std::shared_ptr<Turn>& turn) {
  Queue granted;
  {
    const std::scoped_lock lock(mutex_);
    Queue& queue = QueueOf(*turn);
    if (queue.size() >= queue_limit_)
      return Fail(Code::kOverloaded, "too many blocks wait for S3 at this node");
    queue.push_back(turn);
    granted = GrantFree();
  }
  const bool has_slot = std::erase(granted, turn) > 0;
  Wake(granted);
  return has_slot;
}

Task<Status> FillSlots::Take(std::shared_ptr<Turn> turn, Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = turn->called_.Enlist(executor);
  const Result<bool> granted = Enqueue(turn);
  if (!granted) co_return Fail(granted.error());
  if (*granted) co_return Status();
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

void FillSlots::NoteReader(const Uuid& link, std::uint32_t bytes, Duration took) {
  const std::scoped_lock lock(mutex_);
  share_.NoteReader(link, bytes, took, in_share_, Clock::now());
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

bool FillSlots::HasRoomInBackground() {
  const std::scoped_lock lock(mutex_);
  return free_ > 0 && in_share_ + WaitingInBackground() < LimitInBackground();
}

std::size_t FillSlots::limit_in_background() const {
  const std::scoped_lock lock(mutex_);
  const bool idle = in_share_ + WaitingInBackground() == 0;
  return idle ? share_.most() : share_.current();
}

std::size_t FillSlots::free() const {
  const std::scoped_lock lock(mutex_);
  return free_;
}

}  // namespace forebay
