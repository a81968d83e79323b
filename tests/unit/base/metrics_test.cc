#include "common/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bucket_counts.h"

namespace forebay {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

struct Exposition {
  std::map<std::string, std::string> types;  // family to type
  std::map<std::string, double> samples;     // series as written to value
};

/// Reads Prometheus's text format (version 0.0.4), strictly: a line of any other shape fails.
Exposition Parse(const std::string& text) {
  static const std::regex help("# HELP ([a-z0-9_]+) .+");
  static const std::regex type("# TYPE ([a-z0-9_]+) (counter|gauge|histogram)");
  static const std::regex sample(
      "([a-z0-9_]+(?:\\{[a-z0-9_]+=\"(?:[^\"\\\\\n]|\\\\.)*\"(?:,[a-z0-9_]+=\"(?:[^\"\\\\\n]|\\\\.)"
      "*\")"
      "*\\})?) (\\S+)");
  Exposition exposition;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, type)) {
      EXPECT_TRUE(exposition.types.emplace(match[1], match[2]).second) << "twice: " << line;
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_TRUE(exposition.samples.emplace(match[1], std::stod(match[2])).second) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, help)) << "not the text format: " << line;
    }
  }
  return exposition;
}

TEST(Metrics, SayWhatIsRunning) {
  Metrics metrics;
  EXPECT_THAT(
      metrics.Render(),
      testing::ContainsRegex("\nforebay_build_info\\{commit=\"[^\"]+\",version=\"[0-9.]+\"\\} "
                             "1\n"));
}

TEST(Metrics, SeriesAppearWithTypeLabelsAndValue) {
  Metrics metrics;
  metrics.Counter(metric::kReadBytes, {"imagenet", "s3"}).Increment(5);
  metrics.Counter(metric::kReadBytes, {"imagenet", "s3"}).Increment(2);
  metrics.Counter(metric::kReadBytes, {"imagenet", "local"}).Increment(1);
  metrics.Gauge(metric::kFillsInFlight).Set(3);
  const Exposition seen = Parse(metrics.Render());
  EXPECT_THAT(seen.types, Contains(Pair("forebay_read_bytes_total", "counter")));
  EXPECT_THAT(seen.types, Contains(Pair("forebay_fills_in_flight", "gauge")));
  EXPECT_THAT(seen.samples,
              Contains(Pair("forebay_read_bytes_total{link=\"imagenet\",tier=\"s3\"}", 7)));
  EXPECT_THAT(seen.samples,
              Contains(Pair("forebay_read_bytes_total{link=\"imagenet\",tier=\"local\"}", 1)));
  EXPECT_THAT(seen.samples, Contains(Pair("forebay_fills_in_flight", 3)));
}

TEST(Metrics, AMetricThatNobodyFedIsNotShown) {
  Metrics metrics;
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("forebay_eio_total")));
}

TEST(Metrics, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.Gauge(metric::kCacheUsedBytes, {"/mnt/\"a\\b\"\n"}).Set(1);
  EXPECT_THAT(Parse(metrics.Render()).samples,
              Contains(Pair("forebay_cache_used_bytes{disk=\"/mnt/\\\"a\\\\b\\\"\\n\"}", 1)));
}

TEST(Metrics, HistogramsHaveTheirBuckets) {
  Metrics metrics;
  metrics.Histogram(metric::kReadDuration).Observe(0.0003);
  const Exposition seen = Parse(metrics.Render());
  EXPECT_THAT(seen.samples,
              Contains(Pair("forebay_read_duration_seconds_bucket{le=\"0.0002\"}", 0)));
  EXPECT_THAT(seen.samples,
              Contains(Pair("forebay_read_duration_seconds_bucket{le=\"0.0005\"}", 1)));
  EXPECT_THAT(seen.samples, Contains(Pair("forebay_read_duration_seconds_bucket{le=\"+Inf\"}", 1)));
  EXPECT_THAT(seen.samples, Contains(Pair("forebay_read_duration_seconds_count", 1)));
}

TEST(BucketCounts, HandOnWhatWasCountedOnce) {
  using std::chrono::nanoseconds;
  Metrics metrics;
  BucketCounts counts(metric::kReadDuration);
  counts.Observe(std::chrono::microseconds(20));  // an upper bound belongs to its bucket
  counts.Observe(std::chrono::microseconds(300));
  counts.Observe(std::chrono::seconds(301));
  counts.Observe(nanoseconds(-1));
  prometheus::Histogram& histogram = metrics.Histogram(metric::kReadDuration);
  counts.HandOn(histogram);
  counts.HandOn(histogram);
  const std::string name = "forebay_read_duration_seconds";
  const Exposition seen = Parse(metrics.Render());
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_bucket{le=\"2e-05\"}", 2)));
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_bucket{le=\"0.0002\"}", 2)));
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_bucket{le=\"0.0005\"}", 3)));
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_bucket{le=\"300\"}", 3)));
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_bucket{le=\"+Inf\"}", 4)));
  EXPECT_THAT(seen.samples, Contains(Pair(name + "_sum", testing::DoubleNear(301.00032, 1e-6))));
}

TEST(Metrics, CollectorsAreAskedAtEachScrapeUntilTheyEnd) {
  Metrics metrics;
  std::atomic<int> entries = 4;
  {
    const Metrics::Registration registration = metrics.AddCollector([&](MetricSamples& samples) {
      samples.Set(metric::kIndexEntries, {}, entries.load());
      samples.Set(metric::kEvictedBytes, {"capacity"}, 100);
    });
    EXPECT_THAT(Parse(metrics.Render()).samples, Contains(Pair("forebay_index_entries", 4)));
    entries = 5;
    const Exposition seen = Parse(metrics.Render());
    EXPECT_THAT(seen.samples, Contains(Pair("forebay_index_entries", 5)));
    EXPECT_THAT(seen.samples,
                Contains(Pair("forebay_evicted_bytes_total{reason=\"capacity\"}", 100)));
    EXPECT_THAT(seen.types, Contains(Pair("forebay_evicted_bytes_total", "counter")));
  }
  EXPECT_THAT(Parse(metrics.Render()).samples, Not(Contains(Key("forebay_index_entries"))));
}

TEST(Metrics, SourcesOfOneFamilyStandTogetherAndEqualSeriesAddUp) {
  Metrics metrics;
  metrics.Counter(metric::kS3Retries, {"timeout"}).Increment(1);
  const auto one = metrics.AddCollector(
      [](MetricSamples& samples) { samples.Set(metric::kS3Retries, {"network"}, 2); });
  const auto two = metrics.AddCollector(
      [](MetricSamples& samples) { samples.Set(metric::kS3Retries, {"network"}, 3); });
  const Exposition seen = Parse(metrics.Render());  // fails if a family or a series is there twice
  EXPECT_THAT(seen.samples, Contains(Pair("forebay_s3_retries_total{reason=\"timeout\"}", 1)));
  EXPECT_THAT(seen.samples, Contains(Pair("forebay_s3_retries_total{reason=\"network\"}", 5)));
}

TEST(Metrics, ARegistrationCanBeMovedAndWithdrawn) {
  Metrics metrics;
  Metrics::Registration held;
  {
    Metrics::Registration made = metrics.AddCollector(
        [](MetricSamples& samples) { samples.Set(metric::kIndexEntries, {}, 1); });
    held = std::move(made);
  }
  EXPECT_THAT(metrics.Render(), HasSubstr("forebay_index_entries 1"));
  held = {};
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("forebay_index_entries")));
}

TEST(Metrics, ThreadsCountAtOnceWithoutLosingAny) {
  Metrics metrics;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 2000; ++i) {
        metrics.Counter(metric::kEio, {"s3_timeout"}).Increment();
        if (i % 500 == 0) EXPECT_FALSE(metrics.Render().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Parse(metrics.Render()).samples,
              Contains(Pair("forebay_eio_total{reason=\"s3_timeout\"}", 8000)));
}

TEST(MetricsDeathTest, AWrongNumberOfLabelsIsABug) {
  Metrics metrics;
  EXPECT_EXIT(metrics.Counter(metric::kReadBytes, {"imagenet"}), testing::KilledBySignal(SIGABRT),
              "");
}

TEST(MetricNames, FollowThePrometheusConventions) {
  std::set<std::string_view> names;
  for (const MetricDefinition* metric : AllMetrics()) {
    SCOPED_TRACE(metric->name);
    EXPECT_TRUE(names.insert(metric->name).second) << "twice";
    EXPECT_TRUE(metric->name.starts_with("forebay_"));
    EXPECT_EQ(metric->name.ends_with("_total"), metric->kind == MetricKind::kCounter);
    EXPECT_EQ(metric->buckets.empty(), metric->kind != MetricKind::kHistogram);
    EXPECT_TRUE(std::ranges::is_sorted(metric->buckets));
    EXPECT_TRUE(metric->help.ends_with("."));
    EXPECT_FALSE(metric->programs.empty());
    if (metric->unit != "1") {
      EXPECT_THAT(std::string(metric->name), HasSubstr("_" + std::string(metric->unit)));
    }
  }
}

}  // namespace
}  // namespace forebay
