#include "common/s3/retry.h"

#include <algorithm>
#include <utility>

namespace forebay {

std::string_view RetryReasonName(RetryReason reason) {
  switch (reason) {
    case RetryReason::kNetwork:
      return "network";
    case RetryReason::kTimeout:
      return "timeout";
    case RetryReason::kServerError:
      return "server_error";
    case RetryReason::kThrottled:
      return "throttled";
    case RetryReason::kBadAnswer:
      return "bad_answer";
    case RetryReason::kCredentials:
      return "credentials";
    case RetryReason::kDns:
      return "dns";
  }
  return "unknown";
}

bool RetryTokens::Take() {
  std::scoped_lock lock(mutex_);
  if (left_ < kRetryCost) return false;
  left_ -= kRetryCost;
  return true;
}

void RetryTokens::GiveBack(int tokens) {
  std::scoped_lock lock(mutex_);
  left_ = std::min(kCapacity, left_ + tokens);
}

int RetryTokens::left() const {
  std::scoped_lock lock(mutex_);
  return left_;
}

std::optional<Duration> RetrySchedule::Next(RetryReason reason, TimePoint now) {
  const Duration base = reason == RetryReason::kThrottled ? timing_.throttled_base : timing_.base;
  Duration longest = std::min(base, timing_.cap);
  for (int i = 0; i < retries_ && longest < timing_.cap; ++i) {
    longest = std::min(longest * 2, timing_.cap);
  }
  Duration shortest = Duration::zero();
  paid_ = tokens_.Take();
  if (!paid_) {
    shortest = timing_.cap / 4;
    longest = timing_.cap / 2;
  }
  const std::chrono::duration<double, Duration::period> span(longest - shortest);
  const Duration wait = shortest + std::chrono::duration_cast<Duration>(span * random_());
  if (wait >= deadline_.Remaining(now)) {
    if (paid_) tokens_.GiveBack(RetryTokens::kRetryCost);
    return std::nullopt;
  }
  ++retries_;
  return wait;
}

void RetrySchedule::Drop() {
  if (std::exchange(paid_, false)) tokens_.GiveBack(RetryTokens::kRetryCost);
}

void RetrySchedule::Succeeded() {
  if (retries_ == 0) {
    tokens_.GiveBack(RetryTokens::kFirstTimeRefund);
  } else if (paid_) {
    tokens_.GiveBack(RetryTokens::kRetryCost);
  }
}

}  // namespace forebay
