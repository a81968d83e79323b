#include "common/s3/posix_metadata.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace forebay {
namespace {

template <typename T>
std::optional<T> Parse(std::string_view text, int base) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint16_t> ParseMode(std::string_view text) {
  constexpr std::uint32_t kMostBits = 0177777;  // of st_mode
  constexpr std::uint32_t kPermissions = 0777;
  const std::optional<std::uint32_t> mode = Parse<std::uint32_t>(text, 8);
  if (!mode || *mode > kMostBits) return std::nullopt;
  return static_cast<std::uint16_t>(*mode & kPermissions);
}

/// -1 means "unchanged" to chown(2): nobody has it.
std::optional<std::uint32_t> ParseId(std::string_view text) {
  const std::optional<std::uint32_t> id = Parse<std::uint32_t>(text, 10);
  return id == std::numeric_limits<std::uint32_t>::max() ? std::nullopt : id;
}

std::optional<PosixAttributes::Time> ParseTime(std::string_view text) {
  std::int64_t unit = 1'000'000;  // nanoseconds
  if (text.ends_with("ns")) {
    unit = 1;
    text.remove_suffix(2);
  } else if (text.ends_with("ms")) {
    text.remove_suffix(2);
  }
  const std::optional<std::int64_t> number = Parse<std::int64_t>(text, 10);
  if (!number) return std::nullopt;
  const std::int64_t per_second = 1'000'000'000 / unit;
  std::int64_t seconds = *number / per_second;
  std::int64_t rest = *number % per_second;
  if (rest < 0) {
    rest += per_second;
    --seconds;
  }
  return PosixAttributes::Time{.unix_s = seconds,
                               .nanoseconds = static_cast<std::uint32_t>(rest * unit)};
}

}  // namespace

PosixAttributes ParsePosixMetadata(const FileMetadata& metadata) {
  return {.mode = ParseMode(metadata.permissions),
          .uid = ParseId(metadata.owner),
          .gid = ParseId(metadata.group),
          .mtime = ParseTime(metadata.mtime)};
}

}  // namespace forebay
