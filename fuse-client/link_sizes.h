#pragma once

#include <cstdint>

namespace forebay {

class Snapshot;

/// How a link's bytes are spread over its objects.
struct LinkSizes {
  std::uint64_t blocks = 0;  ///< That its objects are cut into.
  std::uint64_t bytes = 0;
  std::uint64_t large_bytes = 0;  ///< In objects of at least kLargeObject.

  /// An object from which on reading past the page cache costs less than through it (DESIGN 6.2).
  static constexpr std::uint64_t kLargeObject = 8ULL << 20;

  /// Most of the bytes are in large objects.
  bool MostlyLarge() const { return bytes > 0 && large_bytes >= bytes - large_bytes; }
};

/// Exact up to a million rows; of a larger snapshot a million are looked at, evenly spread.
LinkSizes SizesOf(const Snapshot& snapshot);

}  // namespace forebay
