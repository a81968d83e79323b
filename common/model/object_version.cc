#include "common/model/object_version.h"

#define XXH_STATIC_LINKING_ONLY  // the state on the stack
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <random>

namespace forebay {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void UpdateUint64(XXH3_state_t* state, std::uint64_t value) {
  std::array<unsigned char, 8> little;
  for (std::size_t i = 0; i < little.size(); ++i) {
    little[i] = static_cast<unsigned char>(value >> (8 * i));
  }
  XXH3_128bits_update(state, little.data(), little.size());
}

void UpdateField(XXH3_state_t* state, std::string_view field) {
  UpdateUint64(state, field.size());
  XXH3_128bits_update(state, field.data(), field.size());
}

}  // namespace

Uuid Uuid::Random() {
  std::random_device device;
  Uuid uuid;
  for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(device());
  uuid.bytes[6] = static_cast<std::uint8_t>((uuid.bytes[6] & 0x0F) | 0x40);  // RFC 9562: version 4
  uuid.bytes[8] = static_cast<std::uint8_t>((uuid.bytes[8] & 0x3F) | 0x80);  // RFC 9562: variant
  return uuid;
}

Uuid Uuid::Parse(std::string_view text) {
  if (text.size() != 36) return {};
  Uuid uuid;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return {};
    if (dash) continue;
    const int value = HexValue(text[i]);
    if (value < 0) return {};
    auto& byte = uuid.bytes[nibble / 2];
    byte = static_cast<std::uint8_t>((byte << 4) | value);
    ++nibble;
  }
  return uuid;
}

std::string Uuid::ToString() const {
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back(kHexDigits[bytes[i] >> 4]);
    text.push_back(kHexDigits[bytes[i] & 0x0F]);
  }
  return text;
}

bool Uuid::IsZero() const {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

std::string ObjectVersion::ToString() const {
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[i] = kHexDigits[(high >> (60 - 4 * i)) & 0x0F];
    text[16 + i] = kHexDigits[(low >> (60 - 4 * i)) & 0x0F];
  }
  return text;
}

ObjectVersion ComputeObjectVersion(const ObjectIdentity& identity) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  UpdateField(&state, {reinterpret_cast<const char*>(identity.domain.bytes.data()),
                       identity.domain.bytes.size()});
  UpdateField(&state, identity.endpoint);
  UpdateField(&state, identity.bucket);
  UpdateField(&state, identity.key);
  UpdateField(&state, identity.etag);
  UpdateUint64(&state, identity.size);
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return ObjectVersion{hash.high64, hash.low64};
}

std::string NormalisedEndpoint(std::string_view endpoint) {
  std::string text(endpoint);
  while (text.ends_with('/')) text.pop_back();
  const std::size_t scheme_end = text.find("://");
  const std::size_t host_begin = scheme_end == std::string::npos ? 0 : scheme_end + 3;
  const std::size_t host_end = std::min(text.find('/', host_begin), text.size());
  std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(host_end), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view host = std::string_view(text).substr(host_begin, host_end - host_begin);
  const std::string_view default_port = text.starts_with("https://") ? ":443" : ":80";
  if (host.ends_with(default_port)) text.erase(host_end - default_port.size(), default_port.size());
  return text;
}

}  // namespace forebay

std::size_t std::hash<forebay::Uuid>::operator()(const forebay::Uuid& u) const noexcept {
  return XXH3_64bits(u.bytes.data(), u.bytes.size());
}
