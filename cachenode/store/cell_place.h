#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/block_id.h"

// For who reads segments' files without the store.
namespace forebay {

/// Where cells of a block lie in a segment's file, for whoever has that open.
struct CellPlace {
  std::uint64_t segment = 0;   ///< Names the segment for as long as this store is open.
  std::uint64_t position = 0;  ///< Of the first cell, in the file.
  std::vector<std::uint64_t> checksums = {};  ///< Of each cell, as in Cells.
  Uuid link = {};                             ///< Whose blocks the segment holds.
};

/// A segment's file, open for reading.
struct SegmentHandle {
  std::uint64_t segment = 0;
  std::shared_ptr<const int> descriptor = {};
  Uuid link = {};  ///< Whose blocks it holds: not always the reader's, where links share blocks.
};

/// Where a whole block lies, in the segment that was asked about.
struct PlacedBlock {
  BlockId block;
  std::uint64_t position = 0;                 ///< Of its first cell, in the file.
  std::vector<std::uint64_t> checksums = {};  ///< Of all its cells.
};

}  // namespace forebay
