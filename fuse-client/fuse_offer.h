#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forebay {

// For tests of what happens on older kernels. FOREBAY_KERNEL_LACKS names features, with commas
// between them, that this kernel is then taken not to offer: the names of `kernel_features` in
// `.forebay/config`, "max_pages" (READs of more than 128 KiB) and "cache_dir" (lists of entries
// stay in the kernel when a directory is opened). FOREBAY_NO_RESEND is the same as "resend". What a
// name means that is none is said in the log.

/// Flags of FUSE_INIT.
std::uint64_t LackingFlags();
bool LacksFeature(std::string_view name);

/// The kernel says which pages of a file are in memory (cachestat(2), Linux 6.5; a service's filter
/// of system calls may forbid it). Without it a disk may be asked where the node would know better.
bool KnowsCachestat();

/// The kernel's first message without the offer of `flags`; nothing else of it changes.
void TakeOffOffer(std::span<std::byte> first_message, std::uint64_t flags);

}  // namespace forebay
