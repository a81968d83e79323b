#pragma once

#include <cstdint>

namespace forebay {

/// What a node may ask of S3 for its fills: its share of the cluster's budget. 0 = no limit.
struct FillLimits {
  double bytes_per_s = 0;
  double requests_per_s = 0;
  std::int64_t paused_since_unix_s = 0;  ///< 0 = fills run.
  std::uint64_t version = 0;             ///< Of the cluster's decision; 0 = nobody ever decided.

  bool operator==(const FillLimits&) const = default;
};

}  // namespace forebay
