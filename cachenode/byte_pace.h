#pragma once

#include <cstdint>
#include <mutex>

#include "common/base/asio.h"
#include "common/base/executors.h"
#include "common/base/token_bucket.h"

namespace forebay {

/// Lets pieces of work pass at a bounded rate of bytes, whoever asks. Thread-safe.
class BytePace {
 public:
  /// 0 = no bound.
  explicit BytePace(std::uint64_t bytes_per_s) {
    bucket_.SetRate(static_cast<double>(bytes_per_s), Clock::now());
  }

  /// Resumes when `bytes` may pass, or the caller was cancelled.
  Task<void> Pass(std::uint64_t bytes) {
    for (;;) {
      const Duration wait = TakeOrWait(static_cast<double>(bytes), Clock::now());
      if (wait <= Duration::zero()) co_return;
      const bool slept = co_await SleepFor(wait);
      if (!slept) co_return;
    }
  }

 private:
  /// Zero: they were taken.
  Duration TakeOrWait(double bytes, TimePoint now) {
    const std::scoped_lock lock(mutex_);
    const Duration wait = bucket_.Wait(now);
    if (wait <= Duration::zero()) bucket_.Take(bytes, now);
    return wait;
  }

  std::mutex mutex_;
  TokenBucket bucket_;
};

}  // namespace forebay
