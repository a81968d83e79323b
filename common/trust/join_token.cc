#include "common/trust/join_token.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/trust/openssl.h"

namespace forebay {
namespace {

constexpr std::size_t kIdDigits = 12;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kHashBytes = 32;
constexpr std::string_view kDigits = "0123456789abcdef";

void AppendHex(std::string& text, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0xF]);
  }
}

/// "" when it is not `bytes` bytes in hex.
std::string FromHex(std::string_view text, std::size_t bytes) {
  std::string out;
  if (text.size() != 2 * bytes) return out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::size_t high = kDigits.find(text[i]);
    const std::size_t low = kDigits.find(text[i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return {};
    out.push_back(static_cast<char>((high << 4) | low));
  }
  return out;
}

void AppendField(std::string& text, std::string_view field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(size >> (8 * i)));
  text.append(field);
}

}  // namespace

JoinToken JoinToken::New(std::string authority_hash) {
  JoinToken token;
  AppendHex(token.id, RandomText(kIdDigits / 2));
  token.secret = Secret(RandomText(kSecretBytes));
  token.authority_hash = std::move(authority_hash);
  return token;
}

Result<JoinToken> JoinToken::Parse(std::string_view text) {
  JoinToken token;
  const std::size_t first = text.find('.');
  const std::size_t second = first == text.npos ? text.npos : text.find('.', first + 1);
  if (second != text.npos) {
    token.id = std::string(text.substr(0, first));
    token.secret = Secret(FromHex(text.substr(first + 1, second - first - 1), kSecretBytes));
    token.authority_hash = FromHex(text.substr(second + 1), kHashBytes);
  }
  const bool good = token.id.size() == kIdDigits &&
                    token.id.find_first_not_of(kDigits) == std::string::npos &&
                    !token.secret.empty() && !token.authority_hash.empty();
  if (!good) {
    return Fail(Code::kInvalid,
                "that is no join token; copy the whole line that 'forebay init' or 'forebay token "
                "create' printed");
  }
  return token;
}

Secret JoinToken::ToText() const {
  std::string text = id + ".";
  AppendHex(text, secret.Reveal());
  text += ".";
  AppendHex(text, authority_hash);
  return Secret(std::move(text));
}

std::string JoinProof(const Secret& secret, std::string_view channel, std::string_view request) {
  std::string text;
  AppendField(text, "forebay join 1");
  AppendField(text, channel);
  AppendField(text, request);
  return HmacSha256(secret.Reveal(), text);
}

bool SameProof(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace forebay
