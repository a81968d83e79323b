#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cachenode/store/cache_directory.h"
#include "cachenode/store/index_db.h"
#include "common/base/result.h"

namespace forebay {

/// What becomes of the records that recovery finds.
struct RecoverySink {
  /// False: not wanted (the block is there already); it leaves the durable index.
  std::function<bool(const IndexedRecord&)> keep;
  /// The index turned out to be damaged half-way: forget what was kept, it comes again.
  std::function<void()> start_again;
};

struct RecoveredIndex {
  std::unique_ptr<IndexDb> db;
  std::uint64_t kept = 0;
  /// Rows without a segment, or beyond its end, or unwanted.
  std::uint64_t dropped = 0;
  std::uint32_t next_segment = 0;  ///< No segment ever had this number or a higher one.
  bool rebuilt = false;
};

/// Finds the records of a directory: from the durable index, or, when that is missing or damaged,
/// from the record headers in `segments`, out of which a new index is made. Deletes nothing but the
/// damaged index. kInvalid: no space for the index, or it cannot be written.
Result<RecoveredIndex> RecoverIndex(const CacheDirectory& directory,
                                    std::span<const SegmentOnDisk> segments,
                                    std::uint64_t write_buffer_bytes, const RecoverySink& sink);

/// The records whose headers can be read in one segment and whose data lies inside the file, in
/// ascending order. Holes and damage are passed over.
Result<std::vector<IndexedRecord>> ScanSegment(const CacheDirectory& directory,
                                               const SegmentOnDisk& segment);

}  // namespace forebay
