#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

/// What a difference leads from and to.
struct DeltaEnds {
  Uuid link;
  std::uint64_t before = 0;  ///< Generations.
  std::uint64_t after = 0;
  SnapshotDigest before_digest;
  SnapshotDigest after_digest;

  bool operator==(const DeltaEnds&) const = default;
};

struct WrittenDelta {
  std::uint64_t bytes = 0;  ///< Of the file; 0: there is none, as `why_none` says.
  SnapshotDigest digest = {};
  std::string_view why_none = {};
};

/// Writes at `path` what has changed from `before` to `after`, which was built with `before` as its
/// previous: then WriteFromDelta makes `after` of it, byte for byte. None is written where it would
/// be larger than `bytes_max`, or lines of a manifest that stay have another order. About 4 bytes
/// of memory for each folder of both, the difference itself, and what DeltaLines takes.
///
/// kCorrupt: a snapshot is damaged. kInternal: the disk.
Result<WrittenDelta> WriteDelta(const Snapshot& before, const Snapshot& after,
                                const DeltaEnds& ends, std::uint64_t bytes_max,
                                const std::string& path);

/// What of a listing says how much memory it takes to make its snapshot.
struct ListingSize {
  std::uint64_t objects = 0;
  std::uint64_t hidden_keys = 0;
  std::uint64_t file_bytes = 0;  ///< Of its snapshot.
  std::uint64_t line_bytes = 0;  ///< Of that, the lines of a manifest in the generation before.
};

/// Bytes that WriteFromDelta takes at most for such a listing and a difference of so many bytes,
/// that one included: keys that are not sorted yet, some hundred bytes each
/// (SnapshotOptions::memory_bytes), what a SnapshotBuilder takes, and all hidden keys, which are no
/// longer than S3 allows, nor than the file that they are in. A line of a manifest takes 32 bytes
/// while the file is built, and more than 40 in it: a record of 16 and an object with a name of S3.
/// Of numbers that no listing has, more than there is.
inline std::uint64_t MemoryToMerge(const ListingSize& size, std::uint64_t delta_bytes) {
  constexpr std::uint64_t kBeyond = 1ULL << 40;
  constexpr std::uint64_t kHiddenKey = 64;  // and its text
  const std::uint64_t keys = std::min(size.objects, kBeyond);
  const std::uint64_t hidden = std::min(size.hidden_keys, kBeyond);
  const std::uint64_t delta = std::min(delta_bytes, kBeyond);
  const std::uint64_t in_lines =
      size.line_bytes == 0 ? 0 : std::min(size.line_bytes, kBeyond) + delta;
  return std::min<std::uint64_t>(SnapshotOptions().memory_bytes, keys * 100 + 2 * in_lines) +
         keys * 45 + in_lines * 4 / 5 + hidden * kHiddenKey +
         std::min(hidden * kMaxKeyBytes, size.file_bytes) + delta;
}

/// Makes at `path` the generation behind `before` by the difference `delta`. The digest of the file
/// is the one that `ends` says, or there is none. Memory: MemoryToMerge.
///
/// kCorrupt: the difference is damaged, or is not the one between these ends, or leads to another
/// file: fetch the whole one. kInternal: the disk.
Result<FinishedSnapshot> WriteFromDelta(const std::shared_ptr<const Snapshot>& before,
                                        std::string_view delta, const DeltaEnds& ends,
                                        const std::string& path);

}  // namespace forebay
