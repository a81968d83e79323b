#include "fuse-client/mount_metrics.h"

#include <memory>
#include <utility>
#include <vector>

#include "fuse-client/errno_map.h"

namespace forebay {

namespace {

/// Hands on what the read histogram has gained since the last scrape: the workers count into
/// buckets of their own, since one histogram for all would be a lock in every read.
class ReadDurations {
 public:
  explicit ReadDurations(prometheus::Histogram& histogram) : histogram_(histogram) {}

  void Report(const StatsSnapshot& now) {
    std::vector<double> gained;
    gained.reserve(now.read_buckets.size());
    for (std::size_t i = 0; i < now.read_buckets.size(); ++i) {
      gained.push_back(static_cast<double>(now.read_buckets[i] - last_.read_buckets[i]));
    }
    const double seconds = static_cast<double>(now.read_nanoseconds - last_.read_nanoseconds) / 1e9;
    histogram_.ObserveMultiple(gained, seconds);
    last_ = now;
  }

 private:
  prometheus::Histogram& histogram_;
  StatsSnapshot last_;
};

void ReportCounters(const StatsSnapshot& now, const std::string& link, MetricSamples& samples) {
  for (std::size_t op = 0; op < kFuseOps; ++op) {
    for (std::size_t slot = 0; slot < StatsSnapshot::kErrnoSlots; ++slot) {
      if (now.ops[op][slot] == 0) continue;
      samples.Set(metric::kFuseOps,
                  {FuseOpName(static_cast<FuseOp>(op)), ErrnoName(ErrnoOfSlot(slot))},
                  static_cast<double>(now.ops[op][slot]));
    }
  }
  for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
    samples.Set(metric::kReadBytes, {link, TierName(tier)},
                static_cast<double>(now.read_bytes[static_cast<std::size_t>(tier)]));
  }
  samples.Set(metric::kJobStall, {link}, static_cast<double>(now.stall_nanoseconds) / 1e9);
  for (std::size_t code = 1; code < now.failed_reads.size(); ++code) {
    if (ErrnoName(ErrnoOf(static_cast<Code>(code))) != "EIO") continue;
    samples.Set(metric::kEio, {CodeName(static_cast<Code>(code))},
                static_cast<double>(now.failed_reads[code]));
  }
  samples.Set(metric::kChecksumFailures, {"mount"}, static_cast<double>(now.checksum_failures));
}

}  // namespace

Metrics::Registration ReportMountStats(Metrics& metrics, const MountStats& stats,
                                       std::string link) {
  auto durations = std::make_shared<ReadDurations>(metrics.Histogram(metric::kReadDuration));
  return metrics.AddCollector([&stats, link = std::move(link), durations](MetricSamples& samples) {
    const StatsSnapshot now = stats.Sum();
    ReportCounters(now, link, samples);
    durations->Report(now);
  });
}

}  // namespace forebay
