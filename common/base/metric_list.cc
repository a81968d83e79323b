#include <array>

#include "common/base/metric_names.h"

namespace forebay {

std::span<const MetricDefinition* const> AllMetrics() {
  static const std::array<const MetricDefinition*, 54> all = {
      &metric::kBuildInfo,
      &metric::kReadBytes,
      &metric::kPlacedReads,
      &metric::kSendWaits,
      &metric::kReceiveWaits,
      &metric::kReadsSentOn,
      &metric::kCrossZoneBytes,
      &metric::kCopiedBytes,
      &metric::kCopiesWaiting,
      &metric::kCopiesDropped,
      &metric::kReadDuration,
      &metric::kFuseOps,
      &metric::kEio,
      &metric::kJobStall,
      &metric::kHedges,
      &metric::kS3Requests,
      &metric::kS3Retries,
      &metric::kS3Checksums,
      &metric::kS3SecondGets,
      &metric::kS3StandInFills,
      &metric::kS3BudgetRatio,
      &metric::kS3Throttled,
      &metric::kS3RequestLimit,
      &metric::kFillsInFlight,
      &metric::kFillsLimit,
      &metric::kCacheUsedBytes,
      &metric::kCacheCapacityBytes,
      &metric::kEvictedBytes,
      &metric::kIndexEntries,
      &metric::kChecksumFailures,
      &metric::kScrubbedBytes,
      &metric::kDiskErrors,
      &metric::kDiskInService,
      &metric::kBlocksSetAside,
      &metric::kStoreReads,
      &metric::kStoreLockWaits,
      &metric::kReadsNotNoted,
      &metric::kSnapshotFetches,
      &metric::kSnapshotBytes,
      &metric::kSnapshotSentBytes,
      &metric::kRpcConnections,
      &metric::kRpcRequests,
      &metric::kRpcRefused,
      &metric::kAdminActions,
      &metric::kPreloadBytes,
      &metric::kLinkLastRefresh,
      &metric::kRingMembers,
      &metric::kCoordinatorIsLeader,
      &metric::kCertificateExpiry,
      &metric::kRenewalFailing,
      &metric::kLocalCopyOpens,
      &metric::kLocalCopies,
      &metric::kLocalCopyBytes,
      &metric::kNodeClockOffset,
  };
  return all;
}

}  // namespace forebay
