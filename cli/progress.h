#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/console.h"
#include "common/base/deadline.h"

namespace forebay {

/// How far a task is.
struct ProgressState {
  std::string task;  ///< Its id.
  std::uint64_t done = 0;
  std::uint64_t total = 0;  ///< 0 = not known yet.
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
};

/// Shows on stderr how far a task is: a bar with rate and time left on a terminal, a line each 10 s
/// elsewhere, a JSON line each second with -o json.
class Progress {
 public:
  /// `what` stands before the figures: "listing imagenet".
  Progress(Console& console, std::string what, TimePoint begin);

  /// Cheap enough to call at every poll.
  void Show(const ProgressState& state, TimePoint now);

  /// Takes the bar away, so that the next line begins at the left.
  void Clear();

 private:
  void ShowBar(const ProgressState& state, double per_second);
  void ShowLine(const ProgressState& state, double per_second);
  void ShowJson(const ProgressState& state, double per_second);

  Console& console_;
  const std::string what_;
  const TimePoint begin_;
  TimePoint last_;
  bool bar_shown_ = false;
};

}  // namespace forebay
