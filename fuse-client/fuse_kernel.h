#pragma once

#include <linux/fuse.h>

#include <cstdint>

namespace forebay {

// What newer kernels speak and the headers of Debian 12 do not name (linux/fuse.h of 6.9).

/// Written to the connection: every request that was taken and not answered is handed out again.
inline constexpr int kFuseNotifyResend = 7;

/// A flag of FUSE_INIT: the kernel knows kFuseNotifyResend.
inline constexpr std::uint64_t kFuseHasResend = 1ULL << 39;

/// A flag of FUSE_INIT: files that are opened for direct reads can be mapped as shared all the same
/// (Linux 6.6).
inline constexpr std::uint64_t kFuseDirectIoAllowMmap = 1ULL << 36;

/// All flags of FUSE_INIT; those above the 32nd only came when one of the first says so.
inline std::uint64_t FlagsOf(const fuse_init_in& init) {
  const std::uint64_t more = (init.flags & FUSE_INIT_EXT) != 0 ? init.flags2 : 0;
  return more << 32 | init.flags;
}

}  // namespace forebay
