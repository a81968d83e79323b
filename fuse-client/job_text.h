#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <string_view>

#include "fuse-client/job_table.h"

// Jobs as people and programs read them.
namespace forebay {

/// The id of a mount's own job when it was given none: "gpu7:/mnt/imagenet".
std::string OwnJobId(std::string_view mountpoint);

/// `jobs` of `.forebay/stats`: those that have read and not ended.
boost::json::array JobsJson(const JobTable& jobs);

/// What one job read and waited for, in one line.
std::string JobLine(const JobReads& job);

/// A line for each job into the log, at most kLoggedJobs.
void LogJobs(const JobTable& jobs);
inline constexpr std::size_t kLoggedJobs = 10;

}  // namespace forebay
