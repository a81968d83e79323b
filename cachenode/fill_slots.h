#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"

namespace forebay {

/// Bounds how many fills are under way at once. Those beyond wait in the order in which they came:
/// a reader who came first is never overtaken, however many come behind. Thread-safe.
class FillSlots {
 public:
  /// At most `queue_limit` wait.
  FillSlots(std::size_t slots, std::size_t queue_limit)
      : slots_(slots), queue_limit_(queue_limit), free_(slots) {}

  /// With success the caller owns a slot until it calls Return. kOverloaded: too many wait;
  /// kTimeout: the deadline passed.
  Task<Status> Take(Deadline deadline);
  void Return();

  std::size_t slots() const { return slots_; }
  std::size_t free() const;

 private:
  struct Waiter;

  const std::size_t slots_;
  const std::size_t queue_limit_;
  mutable std::mutex mutex_;
  std::size_t free_;                           // guarded by mutex_
  std::deque<std::shared_ptr<Waiter>> queue_;  // guarded by mutex_
};

}  // namespace forebay
