#include "common/base/units.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace forebay {

namespace {

using Wide = unsigned __int128;  // 20 digits (67 bits) times the largest unit (50 bits) fit

constexpr int kMaxDigits = 20;  // as many as 2^64 has

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kSizeUnits = {
    Unit{"B", 1},
    Unit{"KiB", 1ULL << 10},
    Unit{"MiB", 1ULL << 20},
    Unit{"GiB", 1ULL << 30},
    Unit{"TiB", 1ULL << 40},
    Unit{"PiB", 1ULL << 50},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
    Unit{"PB", 1'000'000'000'000'000},
};

constexpr std::uint64_t kSecondMs = 1000;
constexpr std::uint64_t kMinuteMs = 60 * kSecondMs;
constexpr std::uint64_t kHourMs = 60 * kMinuteMs;
constexpr std::uint64_t kDayMs = 24 * kHourMs;

constexpr std::array kDurationUnits = {
    Unit{"ms", 1},          Unit{"s", kSecondMs}, Unit{"m", kMinuteMs},
    Unit{"min", kMinuteMs}, Unit{"h", kHourMs},   Unit{"d", kDayMs},
};

constexpr std::string_view kSizeHelp =
    "is not a size; write a number and a unit, such as 512MiB, 200GB or 1.5TiB";
constexpr std::string_view kRateHelp =
    "is not a rate; write a size for each second, such as 100MB/s";
constexpr std::string_view kDurationHelp =
    "is not a duration; write a number and a unit, such as 500ms, 30s, 2h or 7d";
constexpr std::string_view kPercentHelp =
    "is not a percentage; write a number from 0% to 100%, such as 80%";

std::unexpected<Error> Bad(std::string_view text, std::string_view help) {
  return Fail(Code::kInvalid, fmt::format("\"{}\" {}", text, help));
}

/// A decimal number as it was written: mantissa / 10^fraction_digits.
struct Decimal {
  Wide mantissa = 0;
  int fraction_digits = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Takes the number off the front of `text`; nothing when there is none or it has more than 20
/// digits.
std::optional<Decimal> TakeDecimal(std::string_view& text) {
  Decimal number;
  std::size_t at = 0;
  int digits = 0;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !fraction && digits > 0) {
      fraction = true;
      continue;
    }
    if (!IsDigit(c)) break;
    if (++digits > kMaxDigits) return std::nullopt;
    number.mantissa = number.mantissa * 10 + static_cast<unsigned>(c - '0');
    if (fraction) ++number.fraction_digits;
  }
  if (digits == 0 || text[at - 1] == '.') return std::nullopt;
  text.remove_prefix(at);
  return number;
}

/// number * factor, cut to a whole number; nothing on overflow.
std::optional<std::uint64_t> Scale(Decimal number, std::uint64_t factor) {
  Wide value = number.mantissa * factor;
  for (int i = 0; i < number.fraction_digits; ++i) value /= 10;
  if (value > std::numeric_limits<std::uint64_t>::max()) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameLetters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

const Unit* FindUnit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (SameLetters(unit.name, name)) return &unit;
  }
  return nullptr;
}

void TrimFront(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

/// 1.50, 15.0, 150.
std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

Result<std::uint64_t> ParseSize(std::string_view text) {
  std::string_view rest = text;
  const std::optional<Decimal> number = TakeDecimal(rest);
  if (!number) return Bad(text, kSizeHelp);
  TrimFront(rest);
  const Unit* unit = FindUnit(kSizeUnits, rest.empty() ? "B" : rest);
  if (unit == nullptr) return Bad(text, kSizeHelp);
  if (unit->factor == 1 && number->fraction_digits > 0) {
    return Bad(text, "is not a whole number of bytes; write a unit behind it, such as GiB");
  }
  const std::optional<std::uint64_t> bytes = Scale(*number, unit->factor);
  if (!bytes) return Bad(text, "is larger than 16 EiB");
  return *bytes;
}

Result<std::uint64_t> ParseRate(std::string_view text) {
  if (!text.ends_with("/s")) return Bad(text, kRateHelp);
  Result<std::uint64_t> size = ParseSize(text.substr(0, text.size() - 2));
  if (!size) return Bad(text, kRateHelp);
  return size;
}

Result<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  if (text == "0") return std::chrono::milliseconds(0);
  std::string_view rest = text;
  const std::optional<Decimal> number = TakeDecimal(rest);
  if (!number) return Bad(text, kDurationHelp);
  TrimFront(rest);
  const Unit* unit = FindUnit(kDurationUnits, rest);
  if (unit == nullptr) return Bad(text, kDurationHelp);
  const std::optional<std::uint64_t> ms = Scale(*number, unit->factor);
  if (!ms || *ms >= static_cast<std::uint64_t>(kForever.count())) {
    return Bad(text, "is longer than 100 years");
  }
  return std::chrono::milliseconds(*ms);
}

Result<std::chrono::milliseconds> ParseDurationOrNone(std::string_view text) {
  if (text == "none") return kForever;
  Result<std::chrono::milliseconds> duration = ParseDuration(text);
  if (!duration) return Fail(duration.error().code, duration.error().message + ", or none");
  return duration;
}

Result<double> ParsePercent(std::string_view text) {
  std::string_view rest = text;
  const std::optional<Decimal> number = TakeDecimal(rest);
  TrimFront(rest);
  if (!number || rest != "%") return Bad(text, kPercentHelp);
  const double value =
      static_cast<double>(number->mantissa) / std::pow(10.0, number->fraction_digits + 2);
  if (value > 1.0) return Bad(text, kPercentHelp);
  return value;
}

Result<std::uint64_t> ParseUint(std::string_view text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    return Bad(text, fmt::format("is not a whole number from {} to {}", min, max));
  }
  return value;
}

std::string FormatSize(std::uint64_t bytes) {
  const std::string plain = std::to_string(bytes);
  if (bytes == 0) return plain;
  std::string shortest = plain;
  for (const Unit& unit : kSizeUnits) {
    if (unit.factor == 1 || bytes % unit.factor != 0) continue;
    std::string text = fmt::format("{}{}", bytes / unit.factor, unit.name);
    const std::size_t limit = shortest == plain ? plain.size() + 1 : shortest.size();
    if (text.size() < limit) shortest = std::move(text);
  }
  return shortest;
}

std::string FormatRate(std::uint64_t bytes_per_second) {
  return FormatSize(bytes_per_second) + "/s";
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  if (duration >= kForever) return "none";
  const auto ms = static_cast<std::uint64_t>(duration.count());
  if (ms == 0) return "0s";
  if (ms % kDayMs == 0) return fmt::format("{}d", ms / kDayMs);
  if (ms % kHourMs == 0) return fmt::format("{}h", ms / kHourMs);
  // Up to ten minutes people think in seconds: 300s.
  if (ms % kMinuteMs == 0 && ms > 10 * kMinuteMs) return fmt::format("{}m", ms / kMinuteMs);
  if (ms % kSecondMs == 0) return fmt::format("{}s", ms / kSecondMs);
  return fmt::format("{}ms", ms);
}

std::string HumanBytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.5 would be printed as 1024.
  while (value >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", ThreeDigits(value), kNames[unit]);
}

std::string HumanCount(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string Counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", HumanCount(count), what, count == 1 ? "" : "s");
}

std::string HumanDuration(std::chrono::milliseconds duration) {
  if (duration >= kForever) return "unlimited";
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
  if (ms < kSecondMs) return fmt::format("{} ms", ms);
  if (ms < kMinuteMs) return fmt::format("{} s", ThreeDigits(static_cast<double>(ms) / 1000));
  if (ms < kHourMs) return fmt::format("{} min {} s", ms / kMinuteMs, ms % kMinuteMs / kSecondMs);
  if (ms < kDayMs) return fmt::format("{} h {} min", ms / kHourMs, ms % kHourMs / kMinuteMs);
  return fmt::format("{} d {} h", ms / kDayMs, ms % kDayMs / kHourMs);
}

std::string HumanPercent(double ratio) { return fmt::format("{:.1f} %", ratio * 100); }

}  // namespace forebay
