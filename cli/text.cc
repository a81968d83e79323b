#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace forebay {
namespace {

/// Length of the well-formed UTF-8 character that `text` begins with (RFC 3629: shortest form, no
/// surrogates, at most U+10FFFF), or 0.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if (lead == 0xE0 && second < 0xA0) return 0;
  if (lead == 0xED && second > 0x9F) return 0;
  if (lead == 0xF0 && second < 0x90) return 0;
  if (lead == 0xF4 && second > 0x8F) return 0;
  return length;
}

/// U+0080 to U+009F: some terminals obey them as they obey ESC.
bool IsEightBitControl(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' &&
         static_cast<unsigned char>(character[1]) < 0xA0;
}

void AppendEscaped(std::string& out, std::string_view bytes) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

std::string OneLine(std::string_view text, std::string_view backslash) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const char c = character.front();
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == '\x7F';
    if (c == '\\') {
      out += backslash;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 0 || control || IsEightBitControl(character)) {
      AppendEscaped(out, character);
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string SecondsText(std::int64_t unix_seconds) {
  using std::chrono::days;
  using std::chrono::floor;
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const auto day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss<std::chrono::seconds> clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string Escaped(std::string_view text) { return OneLine(text, R"(\\)"); }

std::string EscapedSentence(std::string_view sentence) { return OneLine(sentence, R"(\)"); }

std::string ValidUtf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::size_t DisplayWidth(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins));
}

std::size_t VisibleWidth(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t colour = text.find("\x1b[");
    width += DisplayWidth(text.substr(0, colour));
    if (colour == std::string_view::npos) break;
    const std::size_t end = text.find('m', colour);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return width;
}

std::string FirstColumns(std::string_view text, std::size_t columns) {
  if (DisplayWidth(text) <= columns) return std::string(text);
  std::string cut;
  while (columns > 1 && !text.empty()) {
    const std::size_t length = std::max<std::size_t>(CharacterLength(text), 1);
    cut += text.substr(0, length);
    text.remove_prefix(length);
    --columns;
  }
  return columns == 0 ? cut : cut + "…";
}

std::string Rfc3339(std::int64_t unix_seconds) { return SecondsText(unix_seconds) + "Z"; }

std::string Rfc3339Ms(std::int64_t unix_ms) {
  const std::chrono::milliseconds all(unix_ms);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(all);
  return fmt::format("{}.{:03}Z", SecondsText(seconds.count()), (all - seconds).count());
}

double Ratio(std::uint64_t done, std::uint64_t total) {
  if (total == 0) return 1;
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

double HitRatio(std::uint64_t hits, std::uint64_t reads) {
  return reads == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(reads);
}

}  // namespace forebay
