#pragma once

#include <cstdint>
#include <vector>

#include "common/model/block_id.h"

namespace forebay {

/// A part of one block that a READ asks for.
struct BlockSpan {
  BlockId block;
  BlockRange range;

  bool operator==(const BlockSpan&) const = default;
};

/// Cuts [offset, offset + size) of an object into spans, in order: one per block that it touches,
/// more of one that is longer than a node may be asked for at once (kBlockPartBytes). What lies
/// past the object's end is cut off; nothing is left of an empty read or one at the end.
std::vector<BlockSpan> CutSpans(const ObjectVersion& version, std::uint64_t object_size,
                                std::uint64_t block_bytes, std::uint64_t offset,
                                std::uint64_t size);

}  // namespace forebay
