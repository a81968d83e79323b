#include "common/model/system_link.h"

#include <xxhash.h>

#include <charconv>
#include <cstring>
#include <system_error>

namespace forebay {
namespace {

constexpr std::string_view kSystemEndpoint = "forebay://coordinator";
constexpr std::string_view kWholeSuffix = ".fbs";
constexpr std::string_view kDeltaSuffix = ".fbd";
/// Makes other ids of links' ids than any other use of this hash. Part of a stored format.
constexpr std::uint64_t kIdSeed = 0x73797374656D6C6BULL;  // "systemlk"
constexpr std::size_t kHalfDigits = 16;

template <typename Number>
std::optional<Number> ParseAll(std::string_view text, int base) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string HexOf(std::uint64_t number) {
  std::string digits(kHalfDigits, '0');
  for (std::size_t i = 0; i < kHalfDigits; ++i)
    digits[kHalfDigits - 1 - i] = "0123456789abcdef"[(number >> (4 * i)) & 0xF];
  return digits;
}

}  // namespace

Uuid SystemLinkId(const Uuid& link) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(link.bytes.data(), link.bytes.size(), kIdSeed);
  Uuid id;
  std::memcpy(id.bytes.data(), &hash.high64, sizeof hash.high64);
  std::memcpy(id.bytes.data() + sizeof hash.high64, &hash.low64, sizeof hash.low64);
  return id;
}

LinkSpec SystemLinkOf(const LinkSpec& link) {
  LinkSpec system;
  system.id = SystemLinkId(link.id);
  system.name = link.name;
  system.set = link.set;
  system.domain = system.id;
  system.origin.endpoint = kSystemEndpoint;
  system.origin.bucket = link.id.ToString();
  system.background_fill = false;
  return system;
}

bool IsSystemLink(const LinkSpec& link) { return link.origin.endpoint == kSystemEndpoint; }

Uuid OwnerOfSystemLink(const LinkSpec& system) { return Uuid::Parse(system.origin.bucket); }

std::string SnapshotKey(const SnapshotObject& object) {
  const std::string generation = std::to_string(object.generation);
  if (object.before == 0) return generation + std::string(kWholeSuffix);
  return std::to_string(object.before) + "-" + generation + std::string(kDeltaSuffix);
}

std::optional<SnapshotObject> ParseSnapshotKey(std::string_view key) {
  if (key.size() < kWholeSuffix.size()) return std::nullopt;
  const std::string_view stem = key.substr(0, key.size() - kWholeSuffix.size());
  SnapshotObject object;
  if (key.ends_with(kWholeSuffix)) {
    object.generation = ParseAll<std::uint64_t>(stem, 10).value_or(0);
  } else if (const std::size_t dash = stem.find('-');
             key.ends_with(kDeltaSuffix) && dash != std::string_view::npos) {
    object.before = ParseAll<std::uint64_t>(stem.substr(0, dash), 10).value_or(0);
    object.generation = ParseAll<std::uint64_t>(stem.substr(dash + 1), 10).value_or(0);
  }
  // Leading zeros and the like would be other names of the same object.
  if (object.generation == 0 || SnapshotKey(object) != key) return std::nullopt;
  return object;
}

std::string SnapshotEtag(std::uint64_t digest_high, std::uint64_t digest_low) {
  return HexOf(digest_high) + HexOf(digest_low);
}

std::optional<DigestHalves> ParseSnapshotEtag(std::string_view etag) {
  if (etag.size() != 2 * kHalfDigits) return std::nullopt;
  const auto high = ParseAll<std::uint64_t>(etag.substr(0, kHalfDigits), 16);
  const auto low = ParseAll<std::uint64_t>(etag.substr(kHalfDigits), 16);
  if (!high || !low || SnapshotEtag(*high, *low) != etag) return std::nullopt;
  return DigestHalves{.high = *high, .low = *low};
}

}  // namespace forebay
