#pragma once

#include <string>

#include "common/base/metrics.h"
#include "fuse-client/stats.h"

namespace forebay {

/// Reports `stats` at each scrape, as reads of `link`, until the registration ends. `stats` must
/// outlive it.
Metrics::Registration ReportMountStats(Metrics& metrics, const MountStats& stats, std::string link);

}  // namespace forebay
