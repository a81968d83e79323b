#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace forebay {

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };

/// kStable names keep their meaning; kEvolving ones may change in a minor version.
enum class MetricStability : std::uint8_t { kStable, kEvolving };

/// One metric as docs/METRICS.md has it. Labels never hold a file, an object or a job.
struct MetricDefinition {
  std::string_view name;  ///< With its unit last, and `_total` behind a counter's.
  MetricKind kind;
  std::string_view unit;  ///< "bytes", "seconds", "1" for a count.
  std::vector<std::string_view> labels;
  std::string_view programs;  ///< Who has it: "node", "node, mount", "all".
  std::string_view help;
  MetricStability stability = MetricStability::kStable;
  std::vector<double> buckets = {};  ///< Of a histogram: upper bounds, rising.
};

// A type for each kind: asking for a counter by a gauge's name does not compile.
struct CounterMetric : MetricDefinition {};
struct GaugeMetric : MetricDefinition {};
struct HistogramMetric : MetricDefinition {};

/// All metrics there are; a name outside of this list cannot be asked for. A new one is a
/// declaration here, its definition in metric_names.cc, and `ops/docs`.
namespace metric {
extern const GaugeMetric kBuildInfo;

extern const CounterMetric kReadBytes;
extern const CounterMetric kPlacedReads;
extern const CounterMetric kSendWaits;
extern const CounterMetric kReceiveWaits;
extern const CounterMetric kReadsSentOn;
extern const CounterMetric kCrossZoneBytes;
extern const CounterMetric kCopiedBytes;
extern const GaugeMetric kCopiesWaiting;
extern const CounterMetric kCopiesDropped;
extern const HistogramMetric kReadDuration;
extern const CounterMetric kFuseOps;
extern const CounterMetric kEio;
extern const CounterMetric kJobStall;
extern const CounterMetric kHedges;
extern const CounterMetric kLocalCopyOpens;
extern const CounterMetric kLocalCopies;
extern const CounterMetric kLocalCopyBytes;

extern const CounterMetric kS3Requests;
extern const CounterMetric kS3Retries;
extern const CounterMetric kS3Checksums;
extern const CounterMetric kS3SecondGets;
extern const CounterMetric kS3StandInFills;
extern const GaugeMetric kS3BudgetRatio;
extern const CounterMetric kS3Throttled;
extern const GaugeMetric kS3RequestLimit;
extern const GaugeMetric kFillsInFlight;
extern const GaugeMetric kFillsLimit;

extern const GaugeMetric kCacheUsedBytes;
extern const GaugeMetric kCacheCapacityBytes;
extern const CounterMetric kEvictedBytes;
extern const GaugeMetric kIndexEntries;
extern const CounterMetric kChecksumFailures;
extern const CounterMetric kScrubbedBytes;
extern const CounterMetric kDiskErrors;
extern const GaugeMetric kDiskInService;
extern const GaugeMetric kBlocksSetAside;
extern const CounterMetric kStoreReads;
extern const CounterMetric kStoreLockWaits;
extern const CounterMetric kReadsNotNoted;

extern const CounterMetric kSnapshotFetches;
extern const CounterMetric kSnapshotBytes;
extern const CounterMetric kSnapshotSentBytes;

extern const GaugeMetric kRpcConnections;
extern const CounterMetric kRpcRequests;
extern const CounterMetric kRpcRefused;
extern const CounterMetric kAdminActions;

extern const GaugeMetric kPreloadBytes;
extern const GaugeMetric kLinkLastRefresh;
extern const GaugeMetric kRingMembers;
extern const GaugeMetric kNodeClockOffset;
extern const GaugeMetric kCoordinatorIsLeader;
extern const GaugeMetric kCertificateExpiry;
extern const GaugeMetric kRenewalFailing;
}  // namespace metric

/// Every definition, in the order of the documentation.
std::span<const MetricDefinition* const> AllMetrics();

}  // namespace forebay
