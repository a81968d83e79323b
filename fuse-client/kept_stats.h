#pragma once

#include <string>
#include <string_view>

#include "fuse-client/stats.h"

namespace forebay {

// How the counters of a mount go from one process to the next, which may be of another release:
// each by its name, as proto::KeptStats.

/// Every counter that is not zero.
std::string SaveCounters(const StatsSnapshot& sum);

/// Zeros, but for what `saved` names and this release knows. "" and what is no such message: zeros.
StatsSnapshot CountersOf(std::string_view saved);

}  // namespace forebay
