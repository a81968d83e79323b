#include "cli/table.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "cli/text.h"

namespace forebay {
namespace {

const char* ColourOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kBad:
      return "\x1b[31m";
    case Tone::kFaint:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

std::string Coloured(const Console& console, std::string text, Tone tone) {
  if (!console.colour || tone == Tone::kPlain || text.empty()) return text;
  return ColourOf(tone) + std::move(text) + "\x1b[0m";
}

std::string Table::Line(const Console& console, const std::vector<Cell>& row) const {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string text = Escaped(row[i].text);
    const std::size_t width = DisplayWidth(text);
    const std::size_t blanks = columns_[i].min_width - std::min(columns_[i].min_width, width);
    if (i > 0) line += "  ";
    if (columns_[i].right) line.append(blanks, ' ');
    line += Coloured(console, text, row[i].tone);
    if (!columns_[i].right && i + 1 < row.size()) line.append(blanks, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void Table::Print(const Console& console) {
  for (Column& column : columns_) {
    column.min_width = std::max(column.min_width, DisplayWidth(column.heading));
  }
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      columns_[i].min_width = std::max(columns_[i].min_width, DisplayWidth(Escaped(row[i].text)));
    }
  }
  if (!std::exchange(headed_, true)) {
    std::vector<Cell> headings;
    headings.reserve(columns_.size());
    for (const Column& column : columns_) headings.emplace_back(column.heading, Tone::kFaint);
    console.out << Line(console, headings) << '\n';
  }
  for (const std::vector<Cell>& row : rows_) console.out << Line(console, row) << '\n';
  console.out << std::flush;
  rows_.clear();
}

}  // namespace forebay
