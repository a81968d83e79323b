#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// Stands for "none" where a duration may be unlimited: 100 years, which still fits into a
/// nanosecond deadline, so that no code needs a special case.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365 * 100);

// Parsing is exact: no floating point, overflow and left-over text are errors. Each error is
// kInvalid and quotes the text, so it can stand behind the place where the text was written.

/// "4096", "512MiB", "200GB", "1.5 TiB" to bytes. KB is 1000, KiB 1024; letters of any case. A
/// fraction of a byte is cut off.
Result<std::uint64_t> ParseSize(std::string_view text);

/// "100MB/s" to bytes per second.
Result<std::uint64_t> ParseRate(std::string_view text);

/// "500ms", "30s", "1.5h", "7d". A number without unit is an error, except 0.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text);

/// As ParseDuration, and "none" is kForever.
Result<std::chrono::milliseconds> ParseDurationOrNone(std::string_view text);

/// "80%" to 0.8; 0% to 100%.
Result<double> ParsePercent(std::string_view text);

/// A whole decimal number in [min, max].
Result<std::uint64_t> ParseUint(std::string_view text, std::uint64_t min, std::uint64_t max);

/// The shortest text that ParseSize, ParseRate, ParseDurationOrNone read back as the same value.
std::string FormatSize(std::uint64_t bytes);
std::string FormatRate(std::uint64_t bytes_per_second);
std::string FormatDuration(std::chrono::milliseconds duration);

// For people to read: three significant digits, not to be parsed.

/// "0 B", "1.50 GiB", "150 GiB".
std::string HumanBytes(std::uint64_t bytes);
/// "1,234,567".
std::string HumanCount(std::uint64_t count);
/// "1 object", "1,234,567 objects".
std::string Counted(std::uint64_t count, std::string_view what);
/// "850 ms", "12.3 s", "4 min 10 s", "3 h 12 min", "5 d 2 h".
std::string HumanDuration(std::chrono::milliseconds duration);
/// 0.987 to "98.7 %".
std::string HumanPercent(double ratio);

}  // namespace forebay
