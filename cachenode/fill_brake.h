#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cachenode/urgency.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/base/token_bucket.h"
#include "common/model/block_id.h"
#include "common/model/fill_limits.h"

namespace forebay {

/// Holds fills back: to this node's share of the cluster's budget for S3, or altogether while they
/// are paused. Those that a reader waits for pass before preloads and these before spare fills,
/// each kind in the order in which it came. Thread-safe.
class FillBrake {
 public:
  /// `refusal` is said to who waited in vain for the limits: what holds back, and what to do.
  explicit FillBrake(std::string refusal) : refusal_(std::move(refusal)) {}

  void Set(const FillLimits& limits);

  /// Success: the caller may ask S3 for `block` now. kTimeout says what held it back;
  /// kUnavailable: Close was called. `bytes`: so many are new to the budget, not all of the block.
  Task<Status> Pass(BlockId block, Urgency urgency, Deadline deadline,
                    std::optional<std::uint32_t> bytes = std::nullopt);
  /// `bytes` of what has passed were not needed: those who wait may take them.
  void GiveBack(std::uint64_t bytes);
  /// A fill that was begun in the background is so urgent now.
  void Promote(const BlockId& block, Urgency urgency);
  /// Nobody wants it any more: what waits for it in the background is refused with kOverloaded.
  void Drop(const BlockId& block);

  /// True when another fill would pass at once.
  bool Open();
  /// Which share of the budget was used in the last few seconds, 0..1; 0 without a limit.
  double UseRatio(TimePoint now);

  /// Everybody who waits, and who comes from now on, is refused.
  void Close();

 private:
  struct Waiter;
  using Queue = std::deque<std::shared_ptr<Waiter>>;

  // Under the mutex.
  Queue& QueueOf(Urgency urgency) { return queues_[static_cast<std::size_t>(urgency)]; }
  std::shared_ptr<Waiter> First() const;
  /// Who waits for `block` less urgently than `than`, or null.
  std::shared_ptr<Waiter> FindBehind(const BlockId& block, Urgency than) const;
  Duration WaitTime(TimePoint now);
  void Take(std::uint64_t bytes, TimePoint now);
  /// False: somebody was there before, or must wait.
  bool TakeAtOnce(std::uint64_t bytes, TimePoint now);
  void Forget(const std::shared_ptr<Waiter>& waiter);
  void TurnWindow(TimePoint now);

  Error Refusal() const;
  void WakeFirst();

  const std::string refusal_;
  mutable std::mutex mutex_;
  FillLimits limits_;
  TokenBucket bytes_;
  TokenBucket requests_;
  std::array<Queue, kUrgencies> queues_;  // by Urgency
  std::atomic<std::size_t> background_waiting_{0};
  bool closed_ = false;
  // What passed in this window and in the one before.
  struct Used {
    double bytes = 0;
    double requests = 0;
  };
  TimePoint window_;
  Used now_;
  Used before_;
};

}  // namespace forebay
