#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/result.h"

namespace forebay {

/// The part of a key range that is still to be listed: (position, until].
struct UnlistedRange {
  std::size_t prefix_bytes = 0;  ///< That all keys of the listing begin with.
  std::string position;          ///< A key.
  std::optional<std::string> until;
};

/// Asks S3 for the first key behind each marker, all at once. Nothing where there is none inside
/// the range but its last.
using ProbeAll = std::function<Task<Result<std::vector<std::optional<std::string>>>>(
    std::vector<std::string> markers)>;

/// Looks for at most `wanted` keys that cut the range into parts of like size, with at most
/// `at_once` probes at a time and no more than six rounds of them. What it answers are keys of the
/// range, ascending; none when it found nothing to cut at. How well they divide it depends on the
/// names: a poor cut costs balance alone.
Task<Result<std::vector<std::string>>> FindSplits(UnlistedRange range, std::size_t wanted,
                                                  std::size_t at_once, ProbeAll probe);

}  // namespace forebay
