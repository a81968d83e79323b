#include "common/base/notifier.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/alarm.h"

namespace forebay {

struct Notifier::Ticket::State {
  explicit State(asio::any_io_executor executor) : alarm(std::move(executor)) {}
  std::atomic<bool> notified{false};
  Alarm alarm;  // touched on its own executor only
};

Task<bool> Notifier::Ticket::Wait(Deadline deadline) {
  std::shared_ptr<State> state = state_;
  if (state->notified.load(std::memory_order_acquire)) co_return true;
  co_await state->alarm.WaitUntil(deadline.at());
  co_return state->notified.load(std::memory_order_acquire);
}

Notifier::Ticket Notifier::Enlist(asio::any_io_executor executor) {
  auto state = std::make_shared<Ticket::State>(std::move(executor));
  std::scoped_lock lock(mutex_);
  std::erase_if(waiters_, [](const auto& waiter) { return waiter.expired(); });
  waiters_.push_back(state);
  return Ticket(std::move(state));
}

void Notifier::NotifyAll() {
  std::vector<std::weak_ptr<Ticket::State>> waiters;
  {
    std::scoped_lock lock(mutex_);
    waiters.swap(waiters_);
  }
  for (const auto& waiter : waiters) {
    std::shared_ptr<Ticket::State> state = waiter.lock();
    if (!state) continue;
    state->notified.store(true, std::memory_order_release);
    // The post runs on the waiter's own executor, so it cannot fall between Wait's check and its
    // wait.
    const asio::any_io_executor executor = state->alarm.executor();
    asio::post(executor, [state = std::move(state)] { state->alarm.Cancel(); });
  }
}

}  // namespace forebay
