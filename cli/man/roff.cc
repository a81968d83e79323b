#include "cli/man/roff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "common/base/version.h"

namespace forebay {
namespace {

/// Of the source, where longer lines are bad style.
constexpr std::size_t kColumns = 78;

/// Takes a character of UTF-8 off the front; what follows the first byte is taken as it is.
std::uint32_t TakeCharacter(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  std::uint32_t point = lead;
  if (lead >= 0xC0) point = lead & (lead >= 0xF0 ? 0x07U : lead >= 0xE0 ? 0x0FU : 0x1FU);
  while (lead >= 0xC0 && !text.empty() &&
         (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
    point = (point << 6) | (static_cast<unsigned char>(text.front()) & 0x3FU);
    text.remove_prefix(1);
  }
  return point;
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

/// `words` in backquotes as bold text.
std::string Bold(std::string_view text) {
  std::string out;
  bool bold = false;
  while (!text.empty()) {
    const std::size_t quote = text.find('`');
    out += RoffEscaped(text.substr(0, quote));
    if (quote == std::string_view::npos) break;
    text.remove_prefix(quote + 1);
    // The last one of an odd number is one that is meant.
    if (!bold && text.find('`') == std::string_view::npos) {
      out += "\\(ga";
      continue;
    }
    bold = !bold;
    out += bold ? "\\fB" : "\\fR";
  }
  return out;
}

}  // namespace

std::string RoffEscaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::uint32_t point = TakeCharacter(text);
    switch (point) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        if (point < 0x80) {
          out += static_cast<char>(point);
        } else {
          out += fmt::format("\\[u{:04X}]", point);
        }
    }
  }
  return out;
}

Roff::Roff(std::string_view name, int section) {
  // The commit's day and not that of the build: two builds of one commit are the same.
  text_ = fmt::format(".TH {} {} \"{}\" \"Forebay {}\" \"Forebay\"\n", Upper(RoffEscaped(name)),
                      section, FOREBAY_COMMIT_DAY, Version());
}

void Roff::Heading(std::string_view macro, std::string_view text) {
  text_ += fmt::format(".{} \"{}\"\n", macro, RoffEscaped(text));
  below_heading_ = true;
}

void Roff::Section(std::string_view heading) { Heading("SH", Upper(heading)); }
void Roff::Subsection(std::string_view heading) { Heading("SS", heading); }

void Roff::BeginParagraph() {
  if (!std::exchange(below_heading_, false)) text_ += ".PP\n";
}

/// Lines of whole words; a sentence begins a line of its own, as is good style.
void Roff::Sentences(std::string_view text) {
  std::string line;
  const std::string bold = Bold(text);
  std::string_view rest = bold;
  const auto end_line = [&] {
    if (line.empty()) return;
    // At the beginning of a line these two would be a request.
    if (line.front() == '.' || line.front() == '\'') text_ += "\\&";
    text_ += line + "\n";
    line.clear();
  };
  while (!rest.empty()) {
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, blank);
    rest.remove_prefix(std::min(blank + 1, rest.size()));
    if (word.empty()) continue;
    if (line.size() + 1 + word.size() > kColumns) end_line();
    if (!line.empty()) line += ' ';
    line += word;
    if (word.ends_with('.') || word.ends_with('?')) end_line();
  }
  end_line();
}

void Roff::Paragraph(std::string_view text) {
  BeginParagraph();
  Sentences(text);
}

void Roff::Command(std::string_view text) {
  BeginParagraph();
  text_ += fmt::format(".nf\n\\fB{}\\fR\n.fi\n", RoffEscaped(text));
}

void Roff::Item(std::string_view tag, std::string_view text) {
  below_heading_ = false;
  text_ += fmt::format(".TP\n\\fB{}\\fR\n", RoffEscaped(tag));
  Sentences(text);
}

void Roff::MoreOfItem(std::string_view text) {
  text_ += ".IP\n";
  Sentences(text);
}

}  // namespace forebay
