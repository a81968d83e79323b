#include "cachenode/request_pace.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace forebay {
namespace {

constexpr std::chrono::milliseconds kWindow{500};
constexpr std::chrono::milliseconds kBetweenCuts{500};
constexpr double kCut = 0.5;
constexpr double kGrowthPerSecond = 0.25;
// Without the coordinator a limit that grew to so much above what is used is none.
constexpr double kFarAbove = 4;

}  // namespace

void RequestPace::TurnWindow(TimePoint now) {
  if (now - window_ < kWindow) return;
  before_ = now - window_ < 2 * kWindow ? now_ : 0;
  now_ = 0;
  window_ = now;
}

double RequestPace::AnsweredPerSecond() const {
  return std::max(now_, before_) / std::chrono::duration<double>(kWindow).count();
}

void RequestPace::Answered(TimePoint now) {
  TurnWindow(now);
  now_ += 1;
}

bool RequestPace::Throttled(TimePoint now) {
  TurnWindow(now);
  const bool first = throttled_at_ == TimePoint() || now - throttled_at_ > kLeaseHolds;
  throttled_at_ = now;
  const bool is_leased = lease_ && now - leased_at_ <= kLeaseHolds;
  if (is_leased || now - cut_at_ < kBetweenCuts) return first;
  const double used = AnsweredPerSecond();
  limit_ = std::max(kCut * (limit_ > 0 ? std::min(limit_, std::max(used, kLeast)) : used), kLeast);
  cut_at_ = grown_at_ = now;
  return first;
}

void RequestPace::Lease(std::optional<double> requests_per_s, TimePoint now) {
  leased_at_ = now;
  lease_ = requests_per_s;
  if (lease_) {
    limit_ = std::max(*lease_, 0.1);
    grown_at_ = now;
  } else if (now - throttled_at_ > kLeaseHolds) {
    limit_ = 0;  // it has heard of every refusal, and has seen no need
  }
}

double RequestPace::Limit(TimePoint now) {
  if (limit_ <= 0) return 0;
  if (lease_ && now - leased_at_ <= kLeaseHolds) return limit_;
  const double elapsed = std::chrono::duration<double>(now - grown_at_).count();
  if (elapsed < 1) return limit_;
  TurnWindow(now);
  grown_at_ = now;
  limit_ *= 1 + kGrowthPerSecond * std::min(elapsed, 2.0);
  if (limit_ > std::max(kFarAbove * AnsweredPerSecond(), 100.0) &&
      now - throttled_at_ > kLeaseHolds)
    limit_ = 0;
  return limit_;
}

}  // namespace forebay
