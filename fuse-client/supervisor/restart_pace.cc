#include "fuse-client/supervisor/restart_pace.h"

#include <algorithm>

namespace forebay {

Duration RestartPace::Died(TimePoint now, Duration served) {
  if (served >= kSteady || row_ == 0) {
    row_ = 0;
    row_began_ = now;
  }
  ++row_;
  if (row_ <= kAtOnce) return {};
  // No more doublings than it takes to reach the longest one.
  constexpr std::size_t kDoublings = 6;
  const std::size_t doublings = std::min(row_ - kAtOnce - 1, kDoublings);
  return std::min(kFirstPause * (1 << doublings), kLongestPause);
}

}  // namespace forebay
