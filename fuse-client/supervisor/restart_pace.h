#pragma once

#include <cstddef>

#include "common/base/deadline.h"

namespace forebay {

/// When a worker that has died is followed by the next one: at once, unless several have died in a
/// row. Pure; one thread.
class RestartPace {
 public:
  /// A worker that has served for so long ends the row.
  static constexpr Duration kSteady = std::chrono::milliseconds(500);
  /// So many deaths of a row are followed by a successor at once.
  static constexpr std::size_t kAtOnce = 3;
  /// From then on the pause begins with this and doubles.
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(5);
  /// Readers wait for so long from the row's first death on; then they get EIO.
  static constexpr Duration kReadersWait = std::chrono::seconds(30);

  /// A worker died at `now`, having served for `served` (zero: not at all). The pause until the
  /// next one starts.
  Duration Died(TimePoint now, Duration served);

  /// Deaths in a row, so far.
  std::size_t row() const { return row_; }
  TimePoint row_began() const { return row_began_; }
  /// When readers have waited long enough, as long as the row goes on.
  TimePoint refuse_from() const { return row_began_ + kReadersWait; }

 private:
  std::size_t row_ = 0;
  TimePoint row_began_;
};

}  // namespace forebay
