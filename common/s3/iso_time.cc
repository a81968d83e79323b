#include "common/s3/iso_time.h"

#include <cstdint>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

// The number at text[at, at + digits).
std::optional<int> Digits(std::string_view text, std::size_t at, std::size_t digits) {
  if (text.size() < at + digits) return std::nullopt;
  const std::optional<std::uint64_t> number = ParseDecimal(text.substr(at, digits));
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

// "", "Z", "+hh:mm" behind the seconds.
std::optional<std::chrono::minutes> Offset(std::string_view text) {
  if (text == "Z") return std::chrono::minutes(0);
  if (text.size() != 6 || text[3] != ':' || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const std::optional<int> hours = Digits(text, 1, 2);
  const std::optional<int> minutes = Digits(text, 4, 2);
  if (!hours || !minutes) return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return text[0] == '-' ? -offset : offset;
}

}  // namespace

std::optional<std::chrono::sys_seconds> ParseIsoTime(std::string_view text) {
  const auto year = Digits(text, 0, 4);
  const auto month = Digits(text, 5, 2);
  const auto day = Digits(text, 8, 2);
  const auto hour = Digits(text, 11, 2);
  const auto minute = Digits(text, 14, 2);
  const auto second = Digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  std::string_view rest = text.substr(19);
  if (rest.starts_with('.')) {
    const std::size_t end = rest.find_first_not_of("0123456789", 1);
    if (end == 1) return std::nullopt;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end);
  }
  const std::optional<std::chrono::minutes> offset = Offset(rest);
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!offset || !date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) - *offset;
}

}  // namespace forebay
