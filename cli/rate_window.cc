#include "cli/rate_window.h"

#include <chrono>

namespace forebay {
namespace {

/// Long enough that the batches in which a task counts do not make the rate jump, short enough to
/// see a standstill soon.
constexpr std::chrono::seconds kWindow{15};
/// From less than this a rate is a guess.
constexpr std::chrono::seconds kLeast{1};

}  // namespace

void RateWindow::Add(TimePoint now, std::uint64_t done, std::uint64_t bytes) {
  if (!samples_.empty() && (done < samples_.back().done || bytes < samples_.back().bytes)) {
    samples_.clear();
  }
  samples_.push_back({.at = now, .done = done, .bytes = bytes});
  // The oldest sample lies on or before the window's beginning, so that it is always a whole one.
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) samples_.pop_front();
}

std::optional<RateWindow::Speed> RateWindow::Current() const {
  if (samples_.empty()) return std::nullopt;
  const Sample& from = samples_.front();
  const Sample& to = samples_.back();
  if (to.at - from.at < kLeast) return std::nullopt;
  const double seconds = std::chrono::duration<double>(to.at - from.at).count();
  return Speed{.objects_per_second = static_cast<double>(to.done - from.done) / seconds,
               .bytes_per_second = static_cast<double>(to.bytes - from.bytes) / seconds};
}

}  // namespace forebay
