#pragma once

#include <linux/fuse.h>
#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace forebay {

// What newer kernels speak and the headers of Debian 12 do not name (linux/fuse.h of 6.9). Their
// own names are macros, which a newer header may have: ours differ.

/// The number of cachestat(2) on every machine (Linux 6.5).
inline constexpr long kCachestat = 451;

/// Written to the connection: every request that was taken and not answered is handed out again.
inline constexpr int kFuseNotifyResend = 7;

/// A flag of FUSE_INIT: the kernel knows kFuseNotifyResend.
inline constexpr std::uint64_t kFuseHasResend = 1ULL << 39;

/// A flag of FUSE_INIT: files that are opened for direct reads can be mapped as shared all the same
/// (Linux 6.6).
inline constexpr std::uint64_t kFuseDirectIoAllowMmap = 1ULL << 36;

/// A flag of FUSE_INIT: opened files can be read by the kernel itself, from files that it was given
/// (Linux 6.9). With it the answer's max_stack_depth must be 1 or 2.
inline constexpr std::uint64_t kFusePassthrough = 1ULL << 37;

/// Where max_stack_depth is in fuse_init_out: behind flags2, in what was reserved.
inline constexpr std::size_t kFuseStackDepthOffset =
    offsetof(fuse_init_out, flags2) + sizeof(fuse_init_out::flags2);

/// 1: the files lie on a file system that is not itself made of others (overlayfs, eCryptfs).
inline constexpr std::uint32_t kFuseStackDepth = 1;

/// A flag in the answer to OPEN: reads are of the file `backing_id`, which stands where older
/// headers have padding.
inline constexpr std::uint32_t kFuseOpenPassthrough = 1U << 7;

/// The answer to OPEN with it.
struct FuseOpenAnswer {
  std::uint64_t handle = 0;
  std::uint32_t flags = 0;
  std::int32_t backing_id = 0;
};
static_assert(sizeof(FuseOpenAnswer) == sizeof(fuse_open_out));

/// Registers a file for the connection; answers its number. Needs CAP_SYS_ADMIN.
struct FuseBackingMap {
  std::int32_t fd = -1;
  std::uint32_t flags = 0;
  std::uint64_t padding = 0;
};
inline constexpr unsigned long kFuseBackingOpen = _IOW(229, 1, FuseBackingMap);
inline constexpr unsigned long kFuseBackingClose = _IOW(229, 2, std::uint32_t);

/// All flags of FUSE_INIT; those above the 32nd only came when one of the first says so.
inline std::uint64_t FlagsOf(const fuse_init_in& init) {
  const std::uint64_t more = (init.flags & FUSE_INIT_EXT) != 0 ? init.flags2 : 0;
  return more << 32 | init.flags;
}

}  // namespace forebay
