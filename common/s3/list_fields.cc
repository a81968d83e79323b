#include "common/s3/list_fields.h"

#include <charconv>
#include <chrono>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

std::optional<unsigned char> HexPair(std::string_view pair) {
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
  if (pair.size() != 2 || error != std::errc() || end != pair.data() + 2) return std::nullopt;
  return byte;
}

std::optional<int> Number(std::string_view text, std::size_t at, std::size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  const std::optional<std::uint64_t> value = ParseDecimal(text.substr(at, digits));
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<std::string> UrlDecoded(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '%') {
      const std::optional<unsigned char> byte = HexPair(text.substr(i + 1, 2));
      if (!byte) return std::nullopt;
      bytes.push_back(static_cast<char>(*byte));
      i += 2;
    } else if (c == '+') {
      bytes.push_back(' ');
    } else if (c <= ' ' || c >= '\x7f') {
      return std::nullopt;
    } else {
      bytes.push_back(c);
    }
  }
  return bytes;
}

std::optional<std::int64_t> ParseIso8601(std::string_view text) {
  if (text.size() < 20 || !text.ends_with('Z') || text[4] != '-' || text[7] != '-' ||
      text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const std::string_view fraction = text.substr(19, text.size() - 20);
  if (!fraction.empty() && (fraction.front() != '.' || !ParseDecimal(fraction.substr(1)))) {
    return std::nullopt;
  }
  const auto year = Number(text, 0, 4);
  const auto month = Number(text, 5, 2);
  const auto day = Number(text, 8, 2);
  const auto hour = Number(text, 11, 2);
  const auto minute = Number(text, 14, 2);
  const auto second = Number(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const std::chrono::sys_seconds at = std::chrono::sys_days(date) + std::chrono::hours(*hour) +
                                      std::chrono::minutes(*minute) + std::chrono::seconds(*second);
  return at.time_since_epoch().count();
}

}  // namespace forebay
