#pragma once

#include "cli/console.h"
#include "cli/progress_figures.h"
#include "cli/rate_window.h"
#include "common/base/deadline.h"

namespace forebay {

/// Shows on stderr how far a task is: on a terminal one line with a bar, rate and time left, as
/// wide as the terminal is at that moment; elsewhere a line each 10 s; a JSON line each second with
/// -o json. Rates are those of the last seconds; the time left is "--" as long as nobody can know
/// it.
class Progress {
 public:
  /// `begin`: from when the 10 s count.
  Progress(const Console& console, ProgressTitle title, TimePoint begin);

  /// Cheap enough to call at every poll.
  void Show(const ProgressState& state, TimePoint now);

  /// Takes the bar away, so that the next line begins at the left.
  void Clear();

 private:
  void ShowBar(const ProgressState& state);
  void ShowJson(const ProgressState& state);

  const Console& console_;
  const ProgressTitle title_;
  RateWindow rate_;
  TimePoint last_;
  bool bar_shown_ = false;
};

}  // namespace forebay
