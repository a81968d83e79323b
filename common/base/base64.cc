#include "common/base/base64.h"

#include <array>
#include <cstdint>

namespace forebay {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 0xFF;

constexpr std::array<std::uint8_t, 256> DigitTable() {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNoDigit);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return table;
}
constexpr std::array<std::uint8_t, 256> kDigits = DigitTable();

std::uint32_t ByteAt(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
}

}  // namespace

std::string Base64Encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t group =
        ByteAt(bytes, at) << 16 | ByteAt(bytes, at + 1) << 8 | ByteAt(bytes, at + 2);
    text.push_back(kAlphabet[group >> 18]);
    text.push_back(kAlphabet[group >> 12 & 63]);
    text.push_back(at + 1 < bytes.size() ? kAlphabet[group >> 6 & 63] : '=');
    text.push_back(at + 2 < bytes.size() ? kAlphabet[group & 63] : '=');
  }
  return text;
}

Result<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) return Fail(Code::kInvalid, "base64 comes in groups of four");
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    std::size_t padding = 0;
    if (last && text[at + 3] == '=') padding = text[at + 2] == '=' ? 2 : 1;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t digit =
          i + padding >= 4 ? std::uint8_t{0} : kDigits[static_cast<unsigned char>(text[at + i])];
      if (digit == kNoDigit) return Fail(Code::kInvalid, "this is no base64");
      group = group << 6 | digit;
    }
    for (std::size_t i = 0; i < 3 - padding; ++i) {
      bytes.push_back(static_cast<char>(group >> (16 - 8 * i) & 0xFF));
    }
  }
  return bytes;
}

}  // namespace forebay
