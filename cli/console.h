#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>

namespace forebay {

enum class OutputFormat : std::uint8_t { kTable, kWide, kJson };

/// In characters. The defaults are those of a terminal that does not say.
struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// Where a verb prints and asks. Results go to `out`; progress, questions and errors to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  std::istream& in;
  OutputFormat format = OutputFormat::kTable;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool in_is_terminal = false;
  bool obeys_ansi = true;  ///< Of the terminal, if any: TERM is set and is not "dumb".
  bool colour = false;     ///< On `out`: a terminal that obeys, and NO_COLOR is unset.
  /// Asked anew for each drawing, so that a window may change its size.
  std::function<TerminalSize()> size = [] { return TerminalSize(); };

  bool json() const { return format == OutputFormat::kJson; }
  bool wide() const { return format == OutputFormat::kWide; }
  /// Somebody sits there who can be asked.
  bool CanAsk() const { return in_is_terminal && err_is_terminal; }
  /// A line on `err` can be drawn over again.
  bool CanRedrawErr() const { return err_is_terminal && obeys_ansi; }
  bool CanRedrawOut() const { return out_is_terminal && obeys_ansi; }
};

}  // namespace forebay
