#include "coordinator/request_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace forebay {
namespace {

using std::chrono::seconds;

// By how much of what was asked was refused: a little is the limit's own last step beyond what S3
// takes; more than a third is an S3 that got slower.
constexpr double kCut = 0.8;
constexpr double kSoftCut = 0.9;
constexpr double kHardCut = 0.5;
constexpr double kLittle = 0.1;
constexpr double kMuch = 0.3;
// The first limit is a guess from the first moment: each second this many times of it, until S3
// refuses again. From a hundredth of what S3 takes in five seconds.
constexpr double kStartGrowth = 2.5;
// A node learns of a cut with its next heartbeat and reports what came of it with the one after:
// what is said in between says nothing about the cut.
constexpr seconds kBetweenCuts{2};
// The limit comes back to a little less than where throttling began.
constexpr double kBelowTarget = 0.97;
constexpr double kBackWithinSeconds = 4;
// Beyond it: by 2 % of it, then three times that each second. 2 % more are refused at worst before
// it is known; from a tenth of what S3 takes it needs seven seconds.
constexpr double kFirstStep = 0.02;
constexpr double kStepGrowth = 3;
constexpr seconds kMemory{10};  // of what was answered
constexpr std::chrono::milliseconds kReported{2500};
constexpr seconds kGoneAfter{10};
constexpr double kFarAbove = 2;

}  // namespace

double RequestRate::PeakSince(TimePoint since) const {
  double peak = 0;
  for (const auto& [at, rate] : answered_) {
    if (at >= since) peak = std::max(peak, rate);
  }
  return peak;
}

void RequestRate::Cut(double answered, double refused, TimePoint now) {
  if (!limit_) {
    target_ = std::max({answered, PeakSince(now - kMemory), kLeast});
    limit_ = std::max(kCut * answered, kLeast);
    cut_at_ = now;
    starting_ = true;
  } else if (now - cut_at_ >= kBetweenCuts) {
    // A second's reports may be those of a little more or less than a second.
    const double most = PeakSince(now - kReported);
    // After two quiet seconds this is a new limit of S3's, or ours was beyond the old one.
    if (quiet_ >= 2) target_ = std::max(kBelowTarget * std::min(*limit_, most), kLeast);
    const double share = refused / (answered + refused);
    const double cut = share < kLittle ? kSoftCut : share > kMuch ? kHardCut : kCut;
    limit_ = std::max(cut * std::min(*limit_, share < kLittle ? most : answered), kLeast);
    cut_at_ = now;
    starting_ = false;
  }
  quiet_ = 0;
  step_ = 0;
  idle_since_ = {};
}

void RequestRate::Grow(double elapsed) {
  if (starting_) {
    limit_ = *limit_ * std::pow(kStartGrowth, elapsed);
    target_ = std::max(target_, *limit_);
    return;
  }
  if (quiet_ < 2) return;
  if (*limit_ < target_) {
    limit_ = std::min(target_, *limit_ + target_ / kBackWithinSeconds * elapsed);
    return;
  }
  step_ = step_ <= 0 ? kFirstStep * target_ : step_ * kStepGrowth;
  limit_ = *limit_ + step_ * elapsed;
}

void RequestRate::Observe(const Seen& seen, TimePoint now) {
  const Duration since = observed_at_ == TimePoint() ? Duration(seconds(1)) : now - observed_at_;
  const double elapsed = std::max(std::chrono::duration<double>(since).count(), 0.001);
  observed_at_ = now;
  const double answered = seen.answered / elapsed;
  answered_.emplace_back(now, answered);
  while (now - answered_.front().first > kMemory) answered_.pop_front();
  if (seen.throttled > 0) {
    Cut(answered, seen.throttled / elapsed, now);
    return;
  }
  ++quiet_;
  if (!limit_) return;
  // Only a limit that is felt is to grow; another one goes when it stands far above for a while.
  const bool felt = seen.some_wait || answered > *limit_ / kFarAbove;
  if (felt || *limit_ < target_) {
    idle_since_ = {};
    Grow(std::min(elapsed, 2.0));
    return;
  }
  if (idle_since_ == TimePoint()) idle_since_ = now;
  if (now - idle_since_ >= kGoneAfter) {
    limit_.reset();
    idle_since_ = {};
  }
}

}  // namespace forebay
