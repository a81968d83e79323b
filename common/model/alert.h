#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forebay {

/// What an administrator is told of in `forebay status` and `forebay stats`, the worst first: what
/// stops reads or loses data or nodes, then what nobody else may do, then what slows reads or waits
/// for someone. A coordinator speaks of them by AlertName; one may be newer than who reads it.
enum class AlertKind : std::uint8_t {
  kNoNodes,
  kFillsPaused,
  kDiskQuarantined,
  kDiskMissing,
  kNodeOut,
  kNodeSuspect,
  kS3Unanswered,
  kS3Refused,
  kNodeDoubled,
  kAddressShared,
  kFrozenListingLost,
  kListingLost,
  kCoordinatorOutdated,
  kCoordinatorRefused,
  kCertificateNotRenewed,
  kCertificateEnds,
  kClockWrong,
  kNodeSlow,
  kNodeOutOfMemory,
  kDiskReadOnly,
  kS3Throttled,
  kLinkFailed,
  kDrainFailed,
  kNodeFenced,
  kBlocksSetAside,
};

/// A row of docs/ALERTS.md.
struct AlertDescription {
  AlertKind kind;
  std::string_view name;   ///< In JSON; it stays.
  std::string_view when;   ///< From when to when it stands.
  std::string_view to_do;  ///< What helps.
  std::string_view fault;  ///< The fault that it tells of.
};

/// All of them, in the order of AlertKind.
std::span<const AlertDescription> AllAlerts();

std::string_view AlertName(AlertKind kind);

/// Where the alert stands among all, 0 = the worst. One that this program does not know comes from
/// a newer coordinator, and behind those that stop reads or lose data or nodes.
std::size_t AlertRank(std::string_view name);

}  // namespace forebay
