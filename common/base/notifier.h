#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"

namespace forebay {

/// A condition variable for coroutines of any executor, without holding a lock over co_await:
///
///     for (;;) {
///       Notifier::Ticket ticket = notifier.Enlist(executor);   // 1. enlist
///       if (ConditionHolds()) break;                           // 2. then look
///       if (!co_await ticket.Wait(deadline)) break;            // 3. then wait: no wake-up can be
///       lost
///     }
///
/// Thread-safe. A ticket keeps what it needs alive; the notifier may end before it.
class Notifier {
 public:
  class Ticket {
   public:
    /// True when NotifyAll came after Enlist, false when the deadline passed or the caller was
    /// cancelled.
    Task<bool> Wait(Deadline deadline);

   private:
    friend class Notifier;
    struct State;
    explicit Ticket(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  Ticket Enlist(asio::any_io_executor executor);
  void NotifyAll();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Ticket::State>> waiters_;
};

}  // namespace forebay
