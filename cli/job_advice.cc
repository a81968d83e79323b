#include "cli/job_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "cli/cluster_stats.h"
#include "cli/text.h"
#include "common/base/units.h"
#include "common/model/limits.h"
#include "common/model/membership.h"

namespace forebay {

namespace {

/// Fewer reads say nothing, of a job as of a node.
constexpr std::uint64_t kTellingReads = 100;
constexpr std::size_t kOtherNodesMin = 2;
constexpr double kSlowFactor = 3;
/// On average; who answers faster than that out of its cache keeps nobody waiting.
constexpr double kSlowMicroseconds = 1'000;
constexpr double kGoodHitRatio = 0.9;
constexpr double kMuchS3 = 0.2;
constexpr double kFewReads = 1.5;

double Part(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Milliseconds(double microseconds) {
  const double milliseconds = microseconds / 1000;
  return fmt::format("{:.{}f} ms", milliseconds, milliseconds < 10 ? 2 : 0);
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<Advice> SlowNode(const proto::DescribeJobReply& job) {
  std::optional<Advice> advice;
  double slowest = 0;
  for (const proto::NodeAnswers& node : job.nodes()) {
    if (node.reads() < kTellingReads) continue;
    std::vector<double> others;
    for (const proto::NodeAnswers& other : job.nodes()) {
      if (other.node() == node.node() || other.reads() < kTellingReads) continue;
      others.push_back(Part(other.wait_us(), other.reads()));
    }
    if (others.size() < kOtherNodesMin) continue;
    const double mean = Part(node.wait_us(), node.reads());
    const double median = MedianOf(std::move(others));
    if (mean < kSlowMicroseconds || mean < kSlowFactor * median || mean <= slowest) continue;
    slowest = mean;
    advice = Advice{AdviceKind::kSlowNode,
                    fmt::format("node {} is slow: it answers from its cache in {} on average, the "
                                "median of the others is {}; look at its disks, network and load",
                                Escaped(node.node()), Milliseconds(mean), Milliseconds(median))};
  }
  return advice;
}

std::uint64_t CacheCapacity(const proto::StatsReply& cluster) {
  std::uint64_t bytes = 0;
  for (const proto::NodeStats& node : cluster.nodes()) {
    if (node.info().state() != static_cast<std::uint32_t>(NodeState::kOut)) {
      bytes += SpaceOf(node).capacity_bytes;
    }
  }
  return bytes;
}

std::optional<Advice> MoreCache(const proto::DescribeJobReply& job,
                                const proto::StatsReply& cluster) {
  const std::uint64_t capacity = CacheCapacity(cluster);
  for (const proto::JobStats& row : job.links()) {
    const std::uint64_t reads = row.reads() - std::min(row.early_reads(), row.reads());
    const std::uint64_t hits = row.hits() - std::min(row.early_hits(), row.hits());
    if (row.epoch() < 2 || reads < kTellingReads || HitRatio(hits, reads) >= kGoodHitRatio)
      continue;
    const auto link = std::ranges::find(cluster.links(), row.link(), &proto::LinkStats::name);
    if (link == cluster.links().end() || link->generation().bytes() <= capacity) continue;
    return Advice{
        AdviceKind::kMoreCache,
        fmt::format("more cache: {} has {} and the nodes hold {} in all, so after the first "
                    "epoch only {} of its block reads were hits; add nodes or larger "
                    "--cache-dir sizes",
                    row.link(), HumanBytes(link->generation().bytes()), HumanBytes(capacity),
                    HumanPercent(HitRatio(hits, reads)))};
  }
  return std::nullopt;
}

/// The longest that any node waits for S3 to answer for that link.
const proto::S3Wait* WaitOf(const proto::LinkStats& link, const proto::StatsReply& cluster) {
  const proto::S3Wait* longest = nullptr;
  for (const proto::NodeStats& node : cluster.nodes()) {
    for (const proto::S3Wait& wait : node.s3_waits()) {
      if (link.source() != "s3://" + wait.bucket() + "/" + wait.prefix()) continue;
      if (longest == nullptr || wait.longest_ms() > longest->longest_ms()) longest = &wait;
    }
  }
  return longest;
}

std::optional<Advice> S3Away(const proto::DescribeJobReply& job, const proto::StatsReply& cluster) {
  for (const proto::JobStats& row : job.links()) {
    const auto link = std::ranges::find(cluster.links(), row.link(), &proto::LinkStats::name);
    if (link == cluster.links().end()) continue;
    const proto::S3Wait* wait = WaitOf(*link, cluster);
    if (wait == nullptr || wait->longest_ms() < kUnansweredMs) continue;
    return Advice{
        AdviceKind::kS3Away,
        fmt::format("look at S3 and the way to it: it has not answered for {} for {}: {}. "
                    "What waits for it now is in no figure above until it ends",
                    row.link(), HumanDuration(std::chrono::milliseconds(wait->longest_ms())),
                    Escaped(wait->why()))};
  }
  return std::nullopt;
}

std::optional<Advice> Preload(const proto::DescribeJobReply& job, const JobSummary& summary) {
  if (summary.shares.s3 < kMuchS3) return std::nullopt;
  const auto most = std::ranges::max_element(
      job.links(), {}, [](const proto::JobStats& row) { return row.waits().s3_us(); });
  return Advice{
      AdviceKind::kPreload,
      fmt::format("preload {}: {} of the wait was for S3; `forebay preload {}` before the "
                  "job begins spares it that",
                  most->link(), HumanPercent(summary.shares.s3), most->link())};
}

std::string NothingToDo(std::uint64_t reads, const JobSummary& summary) {
  if (reads == 0) return "nothing to do: no read of it has come to a mount that reports";
  if (reads < kTellingReads) {
    return fmt::format("nothing to do: {} reads are too few to judge it by", reads);
  }
  return fmt::format(
      "nothing to do: {} of the wait was for caches, a read took {} on average, and {:.1f} were "
      "under way at a time",
      HumanPercent(summary.shares.local + summary.shares.peers),
      Milliseconds(static_cast<double>(summary.waited.count()) / static_cast<double>(reads)),
      summary.reads_in_flight);
}

}  // namespace

std::string_view AdviceName(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::kS3Away:
      return "s3_unanswered";
    case AdviceKind::kSlowNode:
      return "slow_node";
    case AdviceKind::kMoreCache:
      return "more_cache";
    case AdviceKind::kPreload:
      return "preload";
    case AdviceKind::kMoreWorkers:
      return "more_workers";
    case AdviceKind::kNothing:
      return "nothing";
  }
  return "nothing";
}

JobSummary SummaryOf(const proto::DescribeJobReply& job) {
  JobSummary summary;
  const proto::JobWaits& waits = job.waits();
  const std::uint64_t all = waits.local_us() + waits.peer_us() + waits.s3_us() + waits.detour_us();
  summary.waited = std::chrono::microseconds(all);
  summary.shares = JobShares{.local = Part(waits.local_us(), all),
                             .peers = Part(waits.peer_us(), all),
                             .s3 = Part(waits.s3_us(), all),
                             .stalls = Part(waits.detour_us(), all)};
  summary.reads_in_flight = Part(all, waits.busy_us());
  return summary;
}

Advice AdviceFor(const proto::DescribeJobReply& job, const proto::StatsReply& cluster) {
  const JobSummary summary = SummaryOf(job);
  if (std::optional<Advice> away = S3Away(job, cluster)) return *std::move(away);
  if (job.waits().reads() >= kTellingReads) {
    if (std::optional<Advice> slow = SlowNode(job)) return *std::move(slow);
    if (std::optional<Advice> cache = MoreCache(job, cluster)) return *std::move(cache);
    if (std::optional<Advice> preload = Preload(job, summary)) return *std::move(preload);
    // One that stalls would stall with more workers too.
    if (summary.reads_in_flight < kFewReads && summary.shares.stalls < kMuchS3) {
      return Advice{
          AdviceKind::kMoreWorkers,
          fmt::format("more loader workers: only {:.1f} reads are under way at a time, and "
                      "the caches could answer many at once",
                      summary.reads_in_flight)};
    }
  }
  return Advice{AdviceKind::kNothing, NothingToDo(job.waits().reads(), summary)};
}

}  // namespace forebay
