#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/deadline.h"

namespace forebay {

/// How fast something goes now, not on average since it began: measured over the last seconds.
class RateWindow {
 public:
  /// Totals so far. Times do not go backwards; a total that does (the task began anew) empties the
  /// window.
  void Add(TimePoint now, std::uint64_t done, std::uint64_t bytes);

  struct Speed {
    double objects_per_second = 0;
    double bytes_per_second = 0;
  };
  /// Nothing before the first second has been seen.
  std::optional<Speed> Current() const;

 private:
  struct Sample {
    TimePoint at;
    std::uint64_t done;
    std::uint64_t bytes;
  };
  std::deque<Sample> samples_;
};

}  // namespace forebay
