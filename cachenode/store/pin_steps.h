#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/model/block_id.h"

// What a store is told and asked about its pins in steps, so that a link of any size needs no
// memory.
namespace forebay {

/// A step of taking over which blocks of a link are pinned one by one: the first has `begin`, the
/// last `end` (they may be the same), and then nothing else is. Steps of another `sync` than that
/// of the last `begin` are kStale.
struct PinStep {
  Uuid link;
  std::uint64_t sync = 0;     ///< Not 0; the caller's name for this whole take-over.
  std::uint64_t version = 0;  ///< Which pins these are; with `end`. 0 = the link has none any more.
  bool begin = false;
  bool end = false;
  std::vector<BlockId> blocks = {};  ///< To be pinned where they are here.
};

/// A place among the segments that hold a link's blocks; the first one as it is made.
struct SegmentPlace {
  std::size_t disk = 0;  ///< In Disks().
  std::uint64_t segment = 0;
};

/// The pinned blocks of one of a link's segments.
struct PinnedPart {
  std::vector<BlockId> blocks = {};
  std::optional<SegmentPlace> next = {};  ///< Where to go on; nothing: that was the last segment.
};

}  // namespace forebay
