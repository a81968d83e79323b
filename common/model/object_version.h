#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace forebay {

/// 16 random bytes that name a cluster, a link or a sharing domain; written as 8-4-4-4-12 hex
/// digits.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};

  static Uuid Random();
  /// All zero when `text` is no uuid; callers treat the zero uuid as invalid.
  static Uuid Parse(std::string_view text);
  std::string ToString() const;
  bool IsZero() const;
  auto operator<=>(const Uuid&) const = default;
};

/// Names one version of one object for ever: XXH3-128 over the length-prefixed (sharing domain,
/// endpoint, bucket, key, ETag, size). Two links share blocks only when they have the same sharing
/// domain.
struct ObjectVersion {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const ObjectVersion&) const = default;
  std::string ToString() const;  ///< 32 hex digits.
};

/// What an object version is made of. `etag` as S3 gives it, without the quotes; when the bucket
/// keeps versions it is the version id. `endpoint` is the normalised form of NormalisedEndpoint().
struct ObjectIdentity {
  Uuid domain;
  std::string_view endpoint;
  std::string_view bucket;
  std::string_view key;
  std::string_view etag;
  std::uint64_t size = 0;
};

/// Pure and stable across machines and releases (part of stored formats).
ObjectVersion ComputeObjectVersion(const ObjectIdentity& identity);

/// Lower-case scheme and host, default port dropped, no trailing slash:
/// "https://s3.eu-central-1.amazonaws.com".
std::string NormalisedEndpoint(std::string_view endpoint);

}  // namespace forebay

template <>
struct std::hash<forebay::ObjectVersion> {
  std::size_t operator()(const forebay::ObjectVersion& v) const noexcept { return v.low; }
};
template <>
struct std::hash<forebay::Uuid> {
  std::size_t operator()(const forebay::Uuid& u) const noexcept;
};
