#include "common/s3/list_fields.h"

#include <charconv>
#include <chrono>

#include "common/s3/iso_time.h"

namespace forebay {
namespace {

std::optional<unsigned char> HexPair(std::string_view pair) {
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
  if (pair.size() != 2 || error != std::errc() || end != pair.data() + 2) return std::nullopt;
  return byte;
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
  if (!text.ends_with('Z')) return std::nullopt;
  const std::optional<std::chrono::sys_seconds> time = ParseIsoTime(text);
  if (!time) return std::nullopt;
  return time->time_since_epoch().count();
}

}  // namespace forebay
