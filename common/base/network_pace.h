#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/base/token_bucket.h"

namespace forebay {

/// Lets answers leave, or reads begin, at a bounded rate of bytes, in the order in which they came.
/// Each passes before its bytes are in memory. Thread-safe.
class NetworkPace {
 public:
  /// 0 = no bound, which `what` names: "max_bandwidth of this node".
  NetworkPace(std::uint64_t bytes_per_s, std::string what);

  bool bounded() const { return bytes_per_s_ != 0; }

  /// Success: `bytes` may go now. kOverloaded at once when their turn comes after `deadline`.
  /// Who is cancelled while waiting leaves its turn to others.
  Task<Status> Pass(std::uint64_t bytes, Deadline deadline);

  /// Success: what is owed now takes no longer than `most` by then. Takes no turn: who passes
  /// meanwhile is not waited for.
  Task<Status> Settle(Duration most);

  /// `bytes` go that were not known before: who comes next waits for them.
  void Charge(std::uint64_t bytes);

  /// Of those who passed for more than then went; who comes next need not wait for them.
  void GiveBack(std::uint64_t bytes);

  /// Summed over those who passed.
  double waited_seconds() const;

 private:
  class Turn;
  /// How long until the turn of `bytes`, which are paid for from now on.
  Result<Duration> Book(std::uint64_t bytes, TimePoint now, Deadline deadline);
  void Add(double bytes);
  Duration Owed(TimePoint now);

  const std::uint64_t bytes_per_s_;
  const std::string what_;
  std::mutex mutex_;
  TokenBucket bucket_;  // guarded by mutex_
  std::atomic<std::uint64_t> waited_nanoseconds_{0};
};

}  // namespace forebay
