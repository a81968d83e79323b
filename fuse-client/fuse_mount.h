#pragma once

#include <string>

#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Bytes of one READ at most; the kernel's own limit for FUSE (256 pages).
inline constexpr unsigned kMaxReadBytes = 1 << 20;

struct FuseMountOptions {
  std::string source;  ///< Shown as the mount's device: "imagenet".
  std::string mountpoint;
  bool allow_other = false;
  /// False only where other mounts are to stand on its directories: fusermount3 refuses a place
  /// that the kernel calls read-only. Every operation that would write is refused all the same.
  bool read_only = true;
};

/// Mounts; answers /dev/fuse, non-blocking, which FuseSession serves. Whoever may not mount has
/// fusermount3 do it. kInternal with the system's reason. Blocks.
Result<OwnedFd> MountFuse(const FuseMountOptions& options);

}  // namespace forebay
