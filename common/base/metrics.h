#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/metric_names.h"

namespace forebay {

using Labels = std::initializer_list<std::string_view>;

/// What a collector reports at one scrape. Values of the same series from several collectors add
/// up. Label values stand in the order of the definition.
class MetricSamples {
 public:
  virtual ~MetricSamples() = default;
  virtual void Set(const CounterMetric& metric, Labels labels, double value) = 0;
  virtual void Set(const GaugeMetric& metric, Labels labels, double value) = 0;
};

/// The metrics of a program, in Prometheus's text format. Thread-safe. A series is made at its
/// first use and lives as long as this object; keep the reference, looking it up takes a lock.
/// Wrong label counts abort: they are bugs in the caller, not data.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  prometheus::Counter& Counter(const CounterMetric& metric, Labels labels = {});
  prometheus::Gauge& Gauge(const GaugeMetric& metric, Labels labels = {});
  prometheus::Histogram& Histogram(const HistogramMetric& metric, Labels labels = {});

  using Collector = std::function<void(MetricSamples&)>;

  /// Withdraws its collector when it ends; after that the collector is not running and never called
  /// again. Ends before the Metrics.
  class [[nodiscard]] Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class Metrics;
    Registration(Metrics* metrics, int id) : metrics_(metrics), id_(id) {}
    Metrics* metrics_ = nullptr;
    int id_ = 0;
  };

  /// Calls `collector` at each scrape, on the scraper's thread, one at a time: for numbers that
  /// somebody counts anyway (atomics of a hot path). It must not block, nor call this object.
  Registration AddCollector(Collector collector);

  /// All series now.
  std::string Render();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
