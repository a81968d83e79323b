#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace forebay {

/// An ETag of 32 lower-case hex digits, with "-N" behind it for a multipart upload, in 18 bytes.
struct Md5Etag {
  std::array<std::uint8_t, 16> md5{};
  std::uint16_t parts = 0;  ///< N; 0 = none.

  bool operator==(const Md5Etag&) const = default;
};

/// An ETag as a snapshot has it: packed, or the text of one that has another form. Two are equal
/// where their texts are.
using StoredEtag = std::variant<Md5Etag, std::string_view>;

/// Nothing when `etag` has another form; then it is opaque. ToString() of what is returned is
/// `etag` exactly.
std::optional<Md5Etag> PackEtag(std::string_view etag);
std::string ToString(const Md5Etag& etag);

}  // namespace forebay
