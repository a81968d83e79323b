#pragma once

#include <cstdint>
#include <iosfwd>

namespace forebay {

enum class OutputFormat : std::uint8_t { kTable, kWide, kJson };

/// Where a verb prints and asks. Results go to `out`; progress, questions and errors to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  std::istream& in;
  OutputFormat format = OutputFormat::kTable;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool in_is_terminal = false;
  bool colour = false;  ///< On `out`: it is a terminal and NO_COLOR is unset.

  bool json() const { return format == OutputFormat::kJson; }
  bool wide() const { return format == OutputFormat::kWide; }
  /// Somebody sits there who can be asked.
  bool CanAsk() const { return in_is_terminal && err_is_terminal; }
};

}  // namespace forebay
