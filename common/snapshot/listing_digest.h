#pragma once

#include <string>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What a listing shows, in 64 hex digits: the SHA-256 of, for each file, its S3 key, its ETag and
/// its size in decimal, each followed by a NUL byte (which none of them holds), in the order of
/// ComparePaths of the keys. Where it is the same, the same versions of the same objects are shown,
/// whichever cluster, link name and generation it is; anybody can compute it from S3's own listing.
/// Reads all rows. kCorrupt: the snapshot is damaged.
Result<std::string> ListingDigest(const Snapshot& snapshot);

}  // namespace forebay
