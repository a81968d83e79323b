#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "fuse-client/copies/file_copier.h"
#include "fuse-client/stats.h"

namespace forebay {

/// What a process's mounts report at each scrape: the sum of its links, and the bytes and stalls of
/// each. Links come and go; no counter ever goes back. Thread-safe.
class MountMetrics {
 public:
  explicit MountMetrics(Metrics& metrics);
  MountMetrics(const MountMetrics&) = delete;
  MountMetrics& operator=(const MountMetrics&) = delete;

  /// From now on `stats` counts, as reads of `link`, until Remove, which must come before its end.
  void Add(const MountStats& stats, const std::string& link);
  /// Takes over what it has counted. Nothing happens the second time.
  void Remove(const MountStats& stats);
  /// What a link's copier counts; for good, since no counter goes back when its link goes.
  void AddCopies(std::shared_ptr<const CopyCounts> counts);

 private:
  struct OfLink {
    std::array<std::uint64_t, kTiers> bytes{};
    std::uint64_t stall_nanoseconds = 0;
    std::uint64_t cross_zone_bytes = 0;

    void Add(const StatsSnapshot& sum);
  };

  void Report(MetricSamples& samples);
  void ReportDurations(const StatsSnapshot& now);
  void ReportCopies(MetricSamples& samples) const;

  std::mutex mutex_;
  std::map<const MountStats*, std::string> links_;
  StatsSnapshot gone_;  // of links that were removed
  std::map<std::string, OfLink> gone_by_link_;
  std::vector<std::shared_ptr<const CopyCounts>> copies_;
  prometheus::Histogram& durations_;
  StatsSnapshot reported_;  // to durations_
  Metrics::Registration registration_;
};

}  // namespace forebay
