#include "fuse-client/mount_metrics.h"

#include <atomic>
#include <utility>
#include <vector>

#include "fuse-client/errno_map.h"

namespace forebay {

namespace {

void ReportCounters(const StatsSnapshot& now, MetricSamples& samples) {
  for (std::size_t op = 0; op < kFuseOps; ++op) {
    for (std::size_t slot = 0; slot < StatsSnapshot::kErrnoSlots; ++slot) {
      if (now.ops[op][slot] == 0) continue;
      samples.Set(metric::kFuseOps,
                  {FuseOpName(static_cast<FuseOp>(op)), ErrnoName(ErrnoOfSlot(slot))},
                  static_cast<double>(now.ops[op][slot]));
    }
  }
  for (std::size_t code = 1; code < now.failed_reads.size(); ++code) {
    if (ErrnoName(ErrnoOf(static_cast<Code>(code))) != "EIO") continue;
    samples.Set(metric::kEio, {CodeName(static_cast<Code>(code))},
                static_cast<double>(now.failed_reads[code]));
  }
  samples.Set(metric::kHedges, {"won"}, static_cast<double>(now.hedges_won));
  samples.Set(metric::kHedges, {"in_vain"}, static_cast<double>(now.hedges - now.hedges_won));
  for (std::size_t i = 0; i < kPlacedReads; ++i) {
    samples.Set(metric::kPlacedReads, {PlacedReadName(static_cast<PlacedRead>(i))},
                static_cast<double>(now.placed_reads[i]));
  }
  samples.Set(metric::kChecksumFailures, {"mount"}, static_cast<double>(now.checksum_failures));
}

}  // namespace

MountMetrics::MountMetrics(Metrics& metrics)
    : durations_(metrics.Histogram(metric::kReadDuration)),
      registration_(metrics.AddCollector([this](MetricSamples& samples) { Report(samples); })) {}

void MountMetrics::OfLink::Add(const StatsSnapshot& sum) {
  for (std::size_t tier = 0; tier < kTiers; ++tier) bytes[tier] += sum.read_bytes[tier];
  stall_nanoseconds += sum.stall_nanoseconds;
  cross_zone_bytes += sum.cross_zone_bytes;
}

void MountMetrics::Add(const MountStats& stats, const std::string& link) {
  const std::scoped_lock lock(mutex_);
  links_[&stats] = link;
}

void MountMetrics::Remove(const MountStats& stats) {
  const std::scoped_lock lock(mutex_);
  const auto link = links_.find(&stats);
  if (link == links_.end()) return;
  stats.AddTo(gone_);
  gone_by_link_[link->second].Add(stats.Sum());
  links_.erase(link);
}

void MountMetrics::AddCopies(std::shared_ptr<const CopyCounts> counts) {
  const std::scoped_lock lock(mutex_);
  copies_.push_back(std::move(counts));
}

void MountMetrics::ReportCopies(MetricSamples& samples) const {
  const auto sum = [&](std::atomic<std::uint64_t> CopyCounts::* count) {
    std::uint64_t all = 0;
    for (const auto& of_link : copies_) all += (of_link.get()->*count).load();
    return static_cast<double>(all);
  };
  samples.Set(metric::kLocalCopyOpens, {}, sum(&CopyCounts::opens));
  samples.Set(metric::kLocalCopies, {"made"}, sum(&CopyCounts::files));
  samples.Set(metric::kLocalCopies, {"without_room"}, sum(&CopyCounts::without_room));
  samples.Set(metric::kLocalCopies, {"failed"}, sum(&CopyCounts::failed));
  samples.Set(metric::kLocalCopies, {"damaged"}, sum(&CopyCounts::damaged));
  samples.Set(metric::kLocalCopyBytes, {}, sum(&CopyCounts::bytes));
}

void MountMetrics::Report(MetricSamples& samples) {
  const std::scoped_lock lock(mutex_);
  StatsSnapshot now = gone_;
  std::map<std::string, OfLink> by_link = gone_by_link_;
  for (const auto& [stats, link] : links_) {
    stats->AddTo(now);
    by_link[link].Add(stats->Sum());
  }
  ReportCounters(now, samples);
  ReportDurations(now);
  ReportCopies(samples);
  for (const auto& [link, of_link] : by_link) {
    for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
      samples.Set(metric::kReadBytes, {link, TierName(tier)},
                  static_cast<double>(of_link.bytes[static_cast<std::size_t>(tier)]));
    }
    samples.Set(metric::kCrossZoneBytes, {link}, static_cast<double>(of_link.cross_zone_bytes));
    samples.Set(metric::kJobStall, {link}, static_cast<double>(of_link.stall_nanoseconds) / 1e9);
  }
}

// Hands on what the histogram has gained since the last scrape: the workers count into buckets of
// their own, since one histogram for all would be a lock in every read.
void MountMetrics::ReportDurations(const StatsSnapshot& now) {
  std::vector<double> gained;
  gained.reserve(now.read_buckets.size());
  for (std::size_t i = 0; i < now.read_buckets.size(); ++i) {
    gained.push_back(static_cast<double>(now.read_buckets[i] - reported_.read_buckets[i]));
  }
  const std::uint64_t nanoseconds = now.read_nanoseconds - reported_.read_nanoseconds;
  durations_.ObserveMultiple(gained, static_cast<double>(nanoseconds) / 1e9);
  reported_ = now;
}

}  // namespace forebay
