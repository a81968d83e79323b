#include "cli/cluster_stats.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "common/base/units.h"
#include "common/model/disk_state.h"
#include "common/model/link.h"
#include "common/model/membership.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

std::string_view DiskStateName(std::uint32_t state) {
  if (IsState(state, DiskState::kOk)) return "ok";
  if (IsState(state, DiskState::kReadOnly)) return "readonly";
  if (IsState(state, DiskState::kQuarantined)) return "quarantined";
  if (IsState(state, DiskState::kMissing)) return "missing";
  return "unknown";
}

std::string_view RunEndName(std::uint32_t end) {
  switch (end) {
    case 0:
      return "stopped";
    case 1:
      return "killed";
    case 2:
      return "out-of-memory";
    default:
      return "unknown";
  }
}

/// The counters that a link has both in total and in the window.
void PutCounters(boost::json::object& out, const proto::LinkCounters& counters) {
  out["reads"] = counters.reads();
  out["read_bytes"] = counters.read_bytes();
  out["hits"] = counters.hits();
  out["hit_bytes"] = counters.hit_bytes();
  out["misses"] = counters.misses();
  out["hit_ratio"] = HitRatio(counters.hits(), counters.reads());
  out["s3_gets"] = counters.s3_gets();
  out["s3_bytes"] = counters.s3_bytes();
  out["s3_retries"] = counters.s3_retries();
  out["s3_errors"] = counters.s3_errors();
  out["evicted_bytes"] = counters.evicted_bytes();
  out["cross_zone_bytes"] = counters.cross_zone_bytes();
}

}  // namespace

std::expected<proto::StatsReply, Failure> AskStats(Session& session, std::uint32_t window_seconds) {
  proto::StatsRequest request;
  request.set_window_seconds(window_seconds);
  return Ask<proto::StatsReply>(session, Method::kStats, request);
}

std::string_view LinkStateName(std::uint32_t state) {
  switch (state) {
    case 0:
      return "listing";
    case 1:
      return "ready";
    case 2:
      return "failed";
    default:
      return "unknown";
  }
}

std::string_view NodeStateName(std::uint32_t state) {
  switch (static_cast<NodeState>(state)) {
    case NodeState::kUp:
      return "up";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kOut:
      return "out";
  }
  return "unknown";
}

std::string_view OutBecause(const proto::NodeStats& node) {
  if (node.info().state() != static_cast<std::uint32_t>(NodeState::kOut)) return "";
  switch (static_cast<Dismissal>(node.dismissal())) {
    case Dismissal::kNone:
      return "silent";
    case Dismissal::kRemoved:
      return "removed";
    case Dismissal::kDrained:
      return "drained";
    case Dismissal::kFenced:
      return "fenced";
  }
  return "unknown";
}

std::uint64_t CopiesOf(const proto::LinkStats& link) {
  return std::max<std::uint64_t>(link.replicas(), 1);
}

double CachedRatio(const proto::LinkStats& link) {
  if (!link.has_generation()) return 0;
  return Ratio(link.total().cached_bytes(), link.generation().bytes() * CopiesOf(link));
}

Tone LinkTone(std::uint32_t state) {
  if (state == 1) return Tone::kGood;
  return state == 0 ? Tone::kWarning : Tone::kBad;
}

Tone NodeTone(std::uint32_t state) {
  switch (static_cast<NodeState>(state)) {
    case NodeState::kUp:
      return Tone::kGood;
    case NodeState::kSuspect:
    case NodeState::kDraining:
      return Tone::kWarning;
    case NodeState::kOut:
      return Tone::kBad;
  }
  return Tone::kBad;
}

DiskSpace SpaceOf(const proto::NodeStats& node) {
  DiskSpace space;
  for (const proto::DiskReport& disk : node.disks()) {
    space.used_bytes += disk.used_bytes();
    space.capacity_bytes += disk.capacity_bytes();
  }
  // Before its first heartbeat a node has only said how much it will hold.
  if (node.disks().empty()) space.capacity_bytes = node.info().capacity_bytes();
  return space;
}

boost::json::object LinkJson(const proto::LinkStats& link,
                             std::optional<std::uint64_t> cached_objects,
                             std::uint32_t window_seconds) {
  boost::json::object out;
  const proto::GenerationInfo& generation = link.generation();
  out["name"] = link.name();
  PutBytes(out, "source", link.source());
  out["state"] = LinkStateName(link.state());
  out["generation"] = generation.generation();
  out["objects"] = generation.objects();
  out["bytes"] = generation.bytes();
  out["cached_objects"] =
      cached_objects ? boost::json::value(*cached_objects) : boost::json::value();
  out["cached_bytes"] = link.total().cached_bytes();
  out["cached_ratio"] =
      link.has_generation()
          ? Ratio(link.total().cached_bytes(),
                  generation.bytes() * std::max<std::uint64_t>(link.replicas(), 1))
          : 0.0;
  PutCounters(out, link.total());
  out["pinned_bytes"] = link.pinned_bytes();
  out["quota_bytes"] =
      link.quota_bytes() == 0 ? boost::json::value() : boost::json::value(link.quota_bytes());
  out["priority"] = LinkPriorityName(LinkPriorityOf(link.priority()));
  out["replicas"] = std::max<std::uint64_t>(link.replicas(), 1);
  out["hidden_keys"] = generation.hidden_keys();
  boost::json::object window;
  window["seconds"] = window_seconds;
  PutCounters(window, link.window());
  out["window"] = std::move(window);
  return out;
}

boost::json::object NodeJson(const proto::NodeStats& node) {
  const DiskSpace space = SpaceOf(node);
  boost::json::object out;
  out["id"] = ValidUtf8(node.info().id());
  out["address"] = ValidUtf8(node.info().address());
  out["state"] = NodeStateName(node.info().state());
  const std::string_view why = OutBecause(node);
  out["out_because"] = why.empty() ? boost::json::value() : boost::json::value(why);
  out["used_bytes"] = space.used_bytes;
  out["capacity_bytes"] = space.capacity_bytes;
  out["blocks"] = node.blocks();
  out["hits"] = node.total().hits();
  out["misses"] = node.total().misses();
  out["peer_fills"] = node.total().peer_fills();
  out["s3_gets"] = node.total().s3_gets();
  out["s3_bytes"] = node.total().s3_bytes();
  out["cross_zone_bytes"] = node.total().cross_zone_bytes();
  out["checksum_failures"] = node.checksum_failures();
  out["blocks_set_aside"] = node.blocks_set_aside();
  out["last_end"] = RunEndName(node.last_end());
  out["slow"] = node.slow_mounts() > 0;
  out["clock_ahead_seconds"] =
      node.clock_known() ? boost::json::value(static_cast<double>(node.clock_ahead_ms()) / 1000)
                         : boost::json::value();
  out["wrong_clock"] = node.clock_wrong_s() > 0;
  boost::json::array disks;
  for (const proto::DiskReport& disk : node.disks()) {
    boost::json::object& row = disks.emplace_back(boost::json::object()).as_object();
    row["path"] = ValidUtf8(disk.path());
    row["state"] = DiskStateName(disk.state());
    row["used_bytes"] = disk.used_bytes();
    row["capacity_bytes"] = disk.capacity_bytes();
  }
  out["disks"] = std::move(disks);
  return out;
}

double StallSeconds(const proto::JobStats& job) {
  return static_cast<double>(job.waits().s3_us() + job.waits().detour_us()) / 1e6;
}

boost::json::object JobJson(const proto::JobStats& job) {
  // Null where no mount has reported, and where the size of the link is not known.
  const bool reported = job.has_waits();
  const bool epoch_known = job.epoch() != 0;
  const auto known = [](bool is_known, auto value) {
    return is_known ? boost::json::value(value) : boost::json::value();
  };
  boost::json::object out;
  out["id"] = ValidUtf8(job.id());
  out["link"] = job.link();
  out["generation"] = job.generation();
  out["digest"] = known(!job.listing_digest().empty(), job.listing_digest());
  out["mounts"] = known(reported, job.mounts());
  out["epoch"] = known(epoch_known, job.epoch());
  out["progress"] = known(epoch_known, job.progress());
  out["reads"] = job.reads();
  out["hit_ratio"] = HitRatio(job.hits(), job.reads());
  out["stall_seconds"] = known(reported, StallSeconds(job));
  return out;
}

boost::json::object AlertJson(const proto::Alert& alert) {
  boost::json::object out;
  out["name"] = alert.name();
  out["since"] = Rfc3339(alert.since_unix_s());
  out["message"] = ValidUtf8(alert.message());
  out["action"] = ValidUtf8(alert.action());
  return out;
}

boost::json::object EvictedJson(const proto::NodeEvicted& node) {
  boost::json::object out;
  out["id"] = ValidUtf8(node.node_id());
  out["blocks"] = node.blocks();
  out["bytes"] = node.bytes();
  out["pinned_blocks"] = node.pinned_blocks();
  out["pinned_bytes"] = node.pinned_bytes();
  out["error"] =
      node.error().empty() ? boost::json::value() : boost::json::value(ValidUtf8(node.error()));
  return out;
}

boost::json::object FillLimitsJson(const proto::ClusterFillLimits& limits) {
  boost::json::object out;
  const auto unless_zero = [](std::uint64_t value) {
    return value == 0 ? boost::json::value() : boost::json::value(value);
  };
  out["bytes_per_second"] = unless_zero(limits.bytes_per_s());
  out["requests_per_second"] = unless_zero(limits.requests_per_s());
  out["paused_since"] = limits.paused_since_unix_s() == 0
                            ? boost::json::value()
                            : boost::json::value(Rfc3339(limits.paused_since_unix_s()));
  return out;
}

std::string FillLimitsText(const proto::ClusterFillLimits& limits) {
  std::string text;
  if (limits.bytes_per_s() != 0) text = "at most " + FormatRate(limits.bytes_per_s());
  if (limits.requests_per_s() != 0)
    text = "at most " + HumanCount(limits.requests_per_s()) + " requests/s";
  if (limits.paused_since_unix_s() == 0) return text;
  if (!text.empty()) text = "; " + text;
  return "paused since " + Rfc3339(limits.paused_since_unix_s()) + text;
}

std::string ClusterName(const proto::StatsReply& stats) {
  return UuidFromBytes(stats.cluster()).ToString();
}

}  // namespace forebay
