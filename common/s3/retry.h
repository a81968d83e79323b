#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "common/base/deadline.h"

namespace forebay {

/// Why an attempt is made again; a label of forebay_s3_retries_total.
enum class RetryReason : std::uint8_t {
  kNetwork = 0,      ///< No connection, or one that broke.
  kTimeout = 1,      ///< No first byte, or a body that stopped.
  kServerError = 2,  ///< 5xx, RequestTimeout.
  kThrottled = 3,    ///< 503, 429, SlowDown.
  kBadAnswer = 4,    ///< An answer that contradicts itself or the request.
  kCredentials = 5,  ///< Refused: with newer keys, or to learn whether expired ones are still.
  kDns = 6,          ///< The name of S3, or of the proxy before it, was not resolved.
};
inline constexpr std::size_t kRetryReasons = 7;
std::string_view RetryReasonName(RetryReason reason);

/// The longest waits before the first retry; each further retry doubles them up to `cap`
/// (FAULTS.md, and the AWS SDKs' standard mode).
struct RetryTiming {
  Duration base = std::chrono::milliseconds(50);
  Duration throttled_base = std::chrono::seconds(1);
  Duration cap = std::chrono::seconds(20);
};

/// How much retrying one bucket has left, shared by all calls to it: the AWS SDKs' numbers. Where
/// theirs gives up, ours only slows down: reads outlast a bad hour, but do not add to it.
/// Thread-safe.
class RetryTokens {
 public:
  static constexpr int kCapacity = 500;
  static constexpr int kRetryCost = 5;
  static constexpr int kFirstTimeRefund = 1;

  /// Pays for a retry; false when too little is left.
  bool Take();
  void GiveBack(int tokens);
  int left() const;

 private:
  mutable std::mutex mutex_;
  int left_ = kCapacity;
};

/// The retries of one call: how long to wait before each. Full jitter, so that calls which failed
/// together do not come back together. Pure but for the shared tokens.
class RetrySchedule {
 public:
  /// `random` gives numbers in [0, 1).
  RetrySchedule(const RetryTiming& timing, RetryTokens& tokens, Deadline deadline,
                std::function<double()> random)
      : timing_(timing), tokens_(tokens), deadline_(deadline), random_(std::move(random)) {}

  /// The wait before the next attempt; nothing when it would not begin before the deadline. An
  /// empty token bucket makes it 1/4 to 1/2 of the cap.
  std::optional<Duration> Next(RetryReason reason, TimePoint now);

  /// The retry that Next has just let be is not made.
  void Drop();

  /// The call has its answer: refunds the last retry, or a little when there was none.
  void Succeeded();

 private:
  const RetryTiming timing_;
  RetryTokens& tokens_;
  const Deadline deadline_;
  const std::function<double()> random_;
  int retries_ = 0;
  bool paid_ = false;  // for the last retry
};

}  // namespace forebay
