#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/rate_window.h"

namespace forebay {

/// How far a task is.
struct ProgressState {
  std::string task;  ///< Its id.
  std::uint64_t done = 0;
  std::uint64_t total = 0;   ///< 0 = not known yet.
  std::uint64_t failed = 0;  ///< Not in `done`.
  std::uint64_t bytes = 0;
  std::string waiting = {};  ///< What S3 said while the task waits for it; "" = it does not.
};

/// What the figures are about.
struct ProgressTitle {
  std::string what;          ///< Stands before them: "listing imagenet".
  bool moves_bytes = false;  ///< The task moves `bytes`: their rate is shown, too.
};

/// Nothing as long as the total or the speed is not known, or nothing moves.
std::optional<double> SecondsLeft(const ProgressState& state,
                                  const std::optional<RateWindow::Speed>& speed);

/// One line that says how far a task is.
class ProgressFigures {
 public:
  ProgressFigures(const ProgressTitle& title, const ProgressState& state,
                  const std::optional<RateWindow::Speed>& speed);

  /// The line that says most in at most `columns` characters: the bar shrinks first, then what
  /// matters least is left out. A bar needs a total.
  std::string Line(std::size_t columns, bool with_bar) const;

 private:
  std::string title_;
  std::string percent_;
  double ratio_ = 0;
  std::string count_;
  std::string bytes_;
  std::string rate_;
  std::string failed_;
  std::string left_;
  std::string waiting_;
};

}  // namespace forebay
