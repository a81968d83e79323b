#include "common/base/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/version.h"

namespace forebay {

namespace {

[[noreturn]] void Misused(const MetricDefinition& definition, std::string_view how) {
  spdlog::critical("metric {}: {}", definition.name, how);
  std::abort();
}

std::map<std::string, std::string> LabelMap(const MetricDefinition& definition, Labels values) {
  if (values.size() != definition.labels.size()) Misused(definition, "wrong number of labels");
  std::map<std::string, std::string> labels;
  const auto* value = values.begin();
  for (const std::string_view label : definition.labels) labels.emplace(label, *value++);
  return labels;
}

/// The samples of one scrape, as families for the serializer.
class Scrape : public MetricSamples {
 public:
  void Set(const CounterMetric& metric, Labels labels, double value) override {
    Series(metric, prometheus::MetricType::Counter, labels).counter.value += value;
  }
  void Set(const GaugeMetric& metric, Labels labels, double value) override {
    Series(metric, prometheus::MetricType::Gauge, labels).gauge.value += value;
  }

  std::vector<prometheus::MetricFamily> Take() {
    std::vector<prometheus::MetricFamily> families;
    families.reserve(families_.size());
    for (auto& [name, family] : families_) families.push_back(std::move(family));
    return families;
  }

 private:
  prometheus::ClientMetric& Series(const MetricDefinition& definition, prometheus::MetricType type,
                                   Labels values) {
    prometheus::MetricFamily& family = families_[definition.name];
    family.name = definition.name;
    family.help = definition.help;
    family.type = type;
    std::vector<prometheus::ClientMetric::Label> labels;
    for (const auto& [name, value] : LabelMap(definition, values)) labels.push_back({name, value});
    for (prometheus::ClientMetric& series : family.metric) {
      if (series.label == labels) return series;
    }
    prometheus::ClientMetric& series = family.metric.emplace_back();
    series.label = std::move(labels);
    return series;
  }

  std::map<std::string_view, prometheus::MetricFamily> families_;
};

}  // namespace

class Metrics::Impl {
 public:
  Impl() {
    for (const MetricDefinition* definition : AllMetrics()) AddFamily(*definition);
  }

  template <typename T, typename... Extra>
  T& Series(const std::map<const MetricDefinition*, prometheus::Family<T>*>& families,
            const MetricDefinition& definition, Labels labels, const Extra&... extra) {
    const auto found = families.find(&definition);
    if (found == families.end()) Misused(definition, "not in AllMetrics()");
    return found->second->Add(LabelMap(definition, labels), extra...);
  }

  std::string Render() {
    Scrape scrape;
    {
      const std::scoped_lock lock(collectors_mutex_);
      for (const auto& [id, collector] : collectors_) collector(scrape);
    }
    std::vector<prometheus::MetricFamily> families = registry_.Collect();
    // A family appears once in the text, however many sources its series have.
    for (prometheus::MetricFamily& collected : scrape.Take()) {
      bool merged = false;
      for (prometheus::MetricFamily& family : families) {
        if (family.name != collected.name) continue;
        family.metric.insert(family.metric.end(), collected.metric.begin(), collected.metric.end());
        merged = true;
      }
      if (!merged) families.push_back(std::move(collected));
    }
    return prometheus::TextSerializer().Serialize(families);
  }

  int AddCollector(Collector collector) {
    const std::scoped_lock lock(collectors_mutex_);
    collectors_.emplace(++last_id_, std::move(collector));
    return last_id_;
  }

  void RemoveCollector(int id) {
    const std::scoped_lock lock(collectors_mutex_);
    collectors_.erase(id);
  }

  std::map<const MetricDefinition*, prometheus::Family<prometheus::Counter>*> counters;
  std::map<const MetricDefinition*, prometheus::Family<prometheus::Gauge>*> gauges;
  std::map<const MetricDefinition*, prometheus::Family<prometheus::Histogram>*> histograms;

 private:
  void AddFamily(const MetricDefinition& definition) {
    const std::string name(definition.name);
    const std::string help(definition.help);
    switch (definition.kind) {
      case MetricKind::kCounter:
        counters[&definition] =
            &prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
        return;
      case MetricKind::kGauge:
        gauges[&definition] = &prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
        return;
      case MetricKind::kHistogram:
        histograms[&definition] =
            &prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
        return;
    }
  }

  prometheus::Registry registry_;
  std::mutex collectors_mutex_;
  std::map<int, Collector> collectors_;
  int last_id_ = 0;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  Gauge(metric::kBuildInfo, {Version(), Commit()}).Set(1);
}

Metrics::~Metrics() = default;

prometheus::Counter& Metrics::Counter(const CounterMetric& metric, Labels labels) {
  return impl_->Series(impl_->counters, metric, labels);
}

prometheus::Gauge& Metrics::Gauge(const GaugeMetric& metric, Labels labels) {
  return impl_->Series(impl_->gauges, metric, labels);
}

prometheus::Histogram& Metrics::Histogram(const HistogramMetric& metric, Labels labels) {
  return impl_->Series(impl_->histograms, metric, labels, metric.buckets);
}

Metrics::Registration Metrics::AddCollector(Collector collector) {
  return {this, impl_->AddCollector(std::move(collector))};
}

std::string Metrics::Render() { return impl_->Render(); }

Metrics::Registration::Registration(Registration&& other) noexcept
    : metrics_(std::exchange(other.metrics_, nullptr)), id_(other.id_) {}

Metrics::Registration& Metrics::Registration::operator=(Registration&& other) noexcept {
  std::swap(metrics_, other.metrics_);
  std::swap(id_, other.id_);
  return *this;
}

Metrics::Registration::~Registration() {
  if (metrics_ != nullptr) metrics_->impl_->RemoveCollector(id_);
}

}  // namespace forebay
