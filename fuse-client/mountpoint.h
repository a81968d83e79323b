#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace forebay {

// The mount point as a place in the file system: may we mount there, and how do we leave. All calls
// block.

/// Takes what a killed forebay-mount left at `mountpoint` out of the tree; anything else stays.
void ClearDeadMount(const std::string& mountpoint);

/// Checks what can be known before mounting, so that each common mistake gets a sentence of its
/// own: kInvalid the place is missing, no directory, or a mount point already; kInternal the
/// machine has no FUSE, or not for this user.
Status CheckMountpoint(const std::string& mountpoint);

/// The absolute path without links: what the kernel lists, valid after a change of directory.
Result<std::string> AbsoluteMountpoint(const std::string& mountpoint);

/// Of fusermount3, which mounts for users other than root; "" when there is none.
std::string PathOfFusermount();

/// kInternal, with what to do: the machine does not let users mount with allow_other.
Status CheckUserAllowOther();

enum class Unmounted : std::uint8_t { kDone, kBusy, kFailed };
/// Asks the kernel to end the mount. kBusy: somebody uses it; it stays good. kDone too when it is
/// gone already.
Unmounted TryUnmount(const std::string& mountpoint);

/// Takes the mount out of the tree at once; programs that use it keep what they have open until
/// this process ends.
void DetachLazily(const std::string& mountpoint);
/// The same, where what this process sees there is a mount of ours. kNotFound: it sees none there.
/// kInternal: the system refuses.
Status DetachIfOurs(const std::string& mountpoint);

/// Asks the mount for its root's attributes and raises the kernel's read-ahead for it where we may.
/// The error is the mount's own answer.
Status ProbeMount(const std::string& mountpoint, unsigned read_ahead_kb);

/// How far the kernel reads ahead in what is mounted there, in KiB; nothing where it does not say.
/// Does not ask the mount.
std::optional<unsigned> ReadAheadKb(const std::string& mountpoint);

}  // namespace forebay
