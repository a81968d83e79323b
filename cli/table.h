#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"

namespace forebay {

enum class Tone : std::uint8_t { kPlain, kGood, kWarning, kBad, kFaint };

/// `text` in the tone's colour, when the console has colours.
std::string Coloured(const Console& console, std::string text, Tone tone);

/// One field. The text is escaped when it is printed.
struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;

  // Implicit: most cells are a text and nothing else.
  Cell(std::string value, Tone how = Tone::kPlain) : text(std::move(value)), tone(how) {}
};

/// Columns under their headings, separated by two blanks; no blanks at the ends of lines.
class Table {
 public:
  struct Column {
    std::string heading;
    bool right = false;         ///< Numbers are aligned right.
    std::size_t min_width = 0;  ///< For rows that come later than others are printed.
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  /// Prints the rows and forgets them; the headings come before the first ones. Widths only grow.
  void Print(const Console& console);

 private:
  std::string Line(const Console& console, const std::vector<Cell>& row) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  bool headed_ = false;
};

}  // namespace forebay
