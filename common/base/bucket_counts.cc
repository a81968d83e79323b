#include "common/base/bucket_counts.h"

#include <algorithm>
#include <cstddef>

namespace forebay {

BucketCounts::BucketCounts(const HistogramMetric& metric)
    : bounds_(metric.buckets),
      counts_(std::make_unique<std::atomic<std::uint64_t>[]>(metric.buckets.size() + 1)) {}

void BucketCounts::Observe(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bucket = std::ranges::lower_bound(bounds_, seconds) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  const auto whole = std::max(std::chrono::nanoseconds(0), duration).count();
  nanoseconds_.fetch_add(static_cast<std::uint64_t>(whole), std::memory_order_relaxed);
}

void BucketCounts::HandOn(prometheus::Histogram& to) {
  std::vector<double> gained;
  gained.reserve(bounds_.size() + 1);
  for (std::size_t i = 0; i <= bounds_.size(); ++i)
    gained.push_back(static_cast<double>(counts_[i].exchange(0, std::memory_order_relaxed)));
  const std::uint64_t nanoseconds = nanoseconds_.exchange(0, std::memory_order_relaxed);
  to.ObserveMultiple(gained, static_cast<double>(nanoseconds) / 1e9);
}

}  // namespace forebay
