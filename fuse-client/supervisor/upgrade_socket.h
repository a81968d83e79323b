#pragma once

#include <string>

#include "common/base/result.h"

namespace forebay {

/// Where the supervisor of a mount point is asked for an upgrade.
inline constexpr const char* kUpgradeSocket = "mount";
/// A socket for one mount point in `folder`, of what `kind` says.
std::string MountSocketPath(const std::string& folder, const std::string& kind,
                            const std::string& mountpoint);

/// `forebay-mount --upgrade MOUNTPOINT`: hands this program to the supervisor at `path` and waits
/// until the mount is served by it; answers what the supervisor says. kUnavailable: nobody
/// supervises a mount there. kDenied: the supervisor refuses, and says why.
Result<std::string> AskForUpgrade(const std::string& path, const std::string& mountpoint);

}  // namespace forebay
