#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Where the supervisor of a mount point is asked for an upgrade.
inline constexpr const char* kUpgradeSocket = "mount";
/// A socket for one mount point in `folder`, of what `kind` says.
std::string MountSocketPath(const std::string& folder, const std::string& kind,
                            const std::string& mountpoint);

/// The socket while its supervisor lives; only its user may connect.
class UpgradeSocket {
 public:
  UpgradeSocket() = default;
  static Result<UpgradeSocket> Listen(const std::string& path);
  UpgradeSocket(UpgradeSocket&& other) noexcept;
  UpgradeSocket& operator=(UpgradeSocket&& other) noexcept;
  ~UpgradeSocket();  ///< Removes it.

  int fd() const { return socket_.get(); }  ///< -1 = none.
  /// Nothing when nobody waits, or it is another user.
  std::optional<HandoverChannel> Accept() const;

 private:
  OwnedFd socket_;
  std::string path_;
};

/// `forebay-mount --upgrade MOUNTPOINT`: hands this program to the supervisor at `path` and waits
/// until the mount is served by it; answers what the supervisor says. kUnavailable: nobody
/// supervises a mount there. kDenied: the supervisor refuses, and says why.
Result<std::string> AskForUpgrade(const std::string& path, const std::string& mountpoint);

}  // namespace forebay
