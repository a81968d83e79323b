#include "common/snapshot/etag.h"

#include <charconv>
#include <cstddef>

namespace forebay {
namespace {

constexpr std::size_t kDigits = 32;

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;  // upper case would not come back as it was
}

}  // namespace

std::optional<Md5Etag> PackEtag(std::string_view etag) {
  if (etag.size() < kDigits) return std::nullopt;
  Md5Etag packed;
  for (std::size_t i = 0; i < packed.md5.size(); ++i) {
    const int high = HexValue(etag[2 * i]);
    const int low = HexValue(etag[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    packed.md5[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  const std::string_view tail = etag.substr(kDigits);
  if (tail.empty()) return packed;
  if (tail.size() < 2 || tail[0] != '-' || tail[1] == '0') return std::nullopt;
  const char* end = tail.data() + tail.size();
  const auto [stopped, error] = std::from_chars(tail.data() + 1, end, packed.parts);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return packed;
}

std::string ToString(const Md5Etag& etag) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string text;
  text.reserve(kDigits + 6);
  for (const std::uint8_t byte : etag.md5) {
    text.push_back(kHexDigits[byte >> 4]);
    text.push_back(kHexDigits[byte & 0x0F]);
  }
  if (etag.parts != 0) text.append("-").append(std::to_string(etag.parts));
  return text;
}

}  // namespace forebay
