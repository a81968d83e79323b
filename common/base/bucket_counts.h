#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/metrics.h"

namespace forebay {

/// Durations by the buckets of a histogram metric, counted without a lock: the metrics library's
/// own histogram locks at each observation. Thread-safe.
class BucketCounts {
 public:
  explicit BucketCounts(const HistogramMetric& metric);

  void Observe(std::chrono::nanoseconds duration);

  /// Adds what was counted since the last call; one call at a time. A duration that is counted
  /// meanwhile may come with this call in its bucket and with the next one in the sum.
  void HandOn(prometheus::Histogram& to);

 private:
  const std::vector<double> bounds_;                            // in seconds, rising
  const std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;  // one more than bounds
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace forebay
