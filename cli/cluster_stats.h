#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

#include "cli/outcome.h"
#include "cli/session.h"
#include "cli/table.h"
#include "common/base/result.h"
#include "proto/coordinator.pb.h"

// The coordinator's counters, as several verbs show them. The JSON names are those of
// `forebay stats -o json` (docs/JSON.md).
namespace forebay {

/// `window_seconds` 0 = the coordinator's default, a minute.
std::expected<proto::StatsReply, Failure> AskStats(Session& session,
                                                   std::uint32_t window_seconds = 0);

/// "listing", "ready", "failed", of LinkStats.state.
std::string_view LinkStateName(std::uint32_t state);
/// "up", "suspect", "draining", "out", of NodeInfo.state.
std::string_view NodeStateName(std::uint32_t state);
/// "silent", "removed", "drained", "fenced"; "" = it is not out.
std::string_view OutBecause(const proto::NodeStats& node);
/// Of its bytes in as many copies as it is to have; 0 before it is listed.
double CachedRatio(const proto::LinkStats& link);
/// Copies of each block; of a coordinator that does not say: one.
std::uint64_t CopiesOf(const proto::LinkStats& link);
Tone LinkTone(std::uint32_t state);
Tone NodeTone(std::uint32_t state);

/// Sums over the node's disks.
struct DiskSpace {
  std::uint64_t used_bytes = 0;
  std::uint64_t capacity_bytes = 0;
};
DiskSpace SpaceOf(const proto::NodeStats& node);

/// `cached_objects` is null when it is not known.
boost::json::object LinkJson(const proto::LinkStats& link,
                             std::optional<std::uint64_t> cached_objects,
                             std::uint32_t window_seconds);
boost::json::object NodeJson(const proto::NodeStats& node);
boost::json::object JobJson(const proto::JobStats& job);
/// What the job's reads waited for S3 and for nodes that did not answer, summed over reads.
double StallSeconds(const proto::JobStats& job);
boost::json::object AlertJson(const proto::Alert& alert);
/// What nodes freed: id, blocks, bytes, error.
boost::json::object EvictedJson(const proto::NodeEvicted& node);

/// bytes_per_second, requests_per_second (null = no limit), paused_since (null = fills run).
boost::json::object FillLimitsJson(const proto::ClusterFillLimits& limits);
/// "" without any, "at most 500 MB/s", "paused since …; at most 2,000 requests/s".
std::string FillLimitsText(const proto::ClusterFillLimits& limits);

/// The cluster's id as people write it.
std::string ClusterName(const proto::StatsReply& stats);

}  // namespace forebay
