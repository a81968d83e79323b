#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "common/model/limits.h"
#include "common/model/object_version.h"

namespace forebay {

/// A block: `length` bytes at `offset` of one object version. The length is part of the identity,
/// so that a changed block size can never alias an old block (DESIGN section 4).
struct BlockId {
  ObjectVersion version;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;

  auto operator<=>(const BlockId&) const = default;
  std::string ToString() const;  ///< "<version>@<offset>+<length>", for logs.

  std::uint32_t cells() const {
    return static_cast<std::uint32_t>((length + kCellBytes - 1) / kCellBytes);
  }
};

/// The partition of the ring that a block belongs to: XXH3-64 over (version, offset, length), its
/// top 16 bits.
std::uint32_t PartitionOf(const BlockId& block);

/// A half-open run of bytes inside a block, relative to the block's first byte.
struct BlockRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t size() const { return end - begin; }
  auto operator<=>(const BlockRange&) const = default;
};

/// Neither empty nor beyond the block.
inline bool IsPartOf(BlockRange range, const BlockId& block) {
  return range.begin < range.end && range.end <= block.length;
}

/// The smallest run of whole cells that encloses `range` in a block of `length` bytes (the last
/// cell may be short).
BlockRange EnclosingCells(BlockRange range, std::uint32_t length);

/// XXH3-64 of one cell: `bytes` is the whole cell.
std::uint64_t CellChecksum(const void* bytes, std::size_t size);

/// The block that holds byte `position` of an object of `size` bytes cut into blocks of
/// `block_bytes`.
BlockId BlockAt(const ObjectVersion& version, std::uint64_t size, std::uint64_t block_bytes,
                std::uint64_t position);

}  // namespace forebay

template <>
struct std::hash<forebay::BlockId> {
  std::size_t operator()(const forebay::BlockId& id) const noexcept {
    return id.version.low ^ (id.offset * 0x9E3779B97F4A7C15ULL) ^ id.length;
  }
};
