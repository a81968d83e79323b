#pragma once

#include <cstdint>
#include <vector>

#include "cachenode/cold_block.h"
#include "common/model/block_id.h"
#include "common/model/system_link.h"

namespace forebay {

/// A fill begins with its reader's cells where they lie at least so far behind the block's front.
/// What is skipped must be worth a second request: a connection brings about as much in the time
/// that S3 takes to its first byte (50 MB/s, 20 ms).
inline constexpr std::uint32_t kFarBytes = 1U << 20;
/// Cells in one question from which on it may be part of a reader's way from the front: the kernel
/// cuts a window of read-ahead into READs of this size (kMaxReadBytes of the mount), sends them all
/// at once, and any of them may come first. A smaller one at a far place is alone.
inline constexpr std::uint32_t kWindowReadBytes = 1U << 20;

/// Which cells of a cold block its fill brings first, for the reader who asks for `cold.wanted`:
/// his own, if he is a lone one far behind the front; else the whole block, from its front. Also
/// that where the block is all of its object, which S3 may have a checksum of: a GET of the whole
/// object is compared with it, a part could not be.
inline BlockRange FirstCells(const ColdBlock& cold) {
  const BlockRange whole{0, cold.block.length};
  if (cold.object.size <= cold.block.length || IsSystemLink(*cold.link)) return whole;
  const BlockRange cells = EnclosingCells(cold.wanted, cold.block.length);
  return cells.begin >= kFarBytes && cells.size() < kWindowReadBytes ? cells : whole;
}

/// All of a block of `length` bytes, `first` at first, then what is behind it, then what is before
/// it. No part is empty.
inline std::vector<BlockRange> PartsFrom(BlockRange first, std::uint32_t length) {
  std::vector<BlockRange> parts = {first};
  if (first.end < length) parts.push_back({first.end, length});
  if (first.begin > 0) parts.push_back({0, first.begin});
  return parts;
}

/// The same with as few questions as can be, for who answers as the bytes come: at most two.
inline std::vector<BlockRange> StreamsFrom(BlockRange first, std::uint32_t length) {
  return PartsFrom({first.begin, length}, length);
}

}  // namespace forebay
