#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "cachenode/background_share.h"
#include "cachenode/urgency.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"

namespace forebay {

/// Bounds how many fills are under way at once. Those that somebody waits for come first, in the
/// order in which they came: a reader who came first is never overtaken, however many come behind.
/// Those in the background get what is left, preloads before spare fills, and never more than their
/// share, so that a reader finds a free slot however much there is to do in the background; beside
/// readers not more than leaves them their pace (BackgroundShare). Thread-safe.
class FillSlots {
 public:
  /// One fill's place in line.
  class Turn {
   public:
    explicit Turn(Urgency urgency) : urgency_(urgency) {}

   private:
    friend class FillSlots;
    // Guarded by the slots' mutex.
    Urgency urgency_;
    bool granted_ = false;
    bool in_share_ = false;  // it has a slot of the background's share
    Notifier called_;
  };

  /// At most `background_share` slots for the background; at most `queue_limit` of each kind wait.
  FillSlots(std::size_t slots, std::size_t background_share, std::size_t queue_limit)
      : slots_(slots), queue_limit_(queue_limit), share_(background_share), free_(slots) {}

  /// With success the caller owns a slot until it calls Return with the same turn. kOverloaded: too
  /// many wait; kTimeout: the deadline passed.
  Task<Status> Take(std::shared_ptr<Turn> turn, Deadline deadline);
  void Return(const std::shared_ptr<Turn>& turn);
  /// A fill that took its slot for a reader has all of its block: so long after that.
  void NoteReader(const Uuid& link, std::uint32_t bytes, Duration took);

  /// Somebody wants this one so urgently now: it goes behind the others that are. What is more
  /// urgent already stays.
  void Promote(const std::shared_ptr<Turn>& turn, Urgency urgency);
  Urgency UrgencyOf(const Turn& turn) const;
  /// False once somebody waits for it.
  bool InBackground(const Turn& turn) const { return UrgencyOf(turn) != Urgency::kReader; }

  std::size_t slots() const { return slots_; }
  std::size_t free() const;
  /// Fills that may be under way in the background, as it was when that was last asked for.
  std::size_t limit_in_background() const;
  /// A fill in the background that came now would have a slot at once.
  bool HasRoomInBackground();

 private:
  using Queue = std::deque<std::shared_ptr<Turn>>;

  Queue& QueueOf(const Turn& turn) { return queues_[static_cast<std::size_t>(turn.urgency_)]; }
  /// The most urgent queue with somebody in it, or null.
  Queue* First();
  std::size_t LimitInBackground();
  std::size_t WaitingInBackground() const;
  /// True: it has its slot at once.
  Result<bool> Enqueue(const std::shared_ptr<Turn>& turn);
  /// Gives free slots to those who are next; under the mutex. The caller wakes them.
  Queue GrantFree();
  static void Wake(const Queue& granted);

  const std::size_t slots_;
  const std::size_t queue_limit_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  BackgroundShare share_;
  std::size_t free_;
  std::size_t in_share_ = 0;
  std::array<Queue, kUrgencies> queues_;  // by Urgency
};

}  // namespace forebay
