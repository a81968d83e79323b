#include "common/model/block_id.h"

#ifdef FOREBAY_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <algorithm>
#include <array>

namespace forebay {

std::string BlockId::ToString() const {
  return version.ToString() + "@" + std::to_string(offset) + "+" + std::to_string(length);
}

std::uint32_t PartitionOf(const BlockId& block) {
  std::array<unsigned char, 28> bytes;
  const auto put = [&bytes](std::size_t at, std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      bytes[at + i] = static_cast<unsigned char>(value >> (8 * i));
  };
  put(0, block.version.high, 8);
  put(8, block.version.low, 8);
  put(16, block.offset, 8);
  put(24, block.length, 4);
  static_assert(kPartitions == 1U << 16);
  return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), bytes.size()) >> 48);
}

BlockRange EnclosingCells(BlockRange range, std::uint32_t length) {
  constexpr auto kCell = static_cast<std::uint32_t>(kCellBytes);
  const std::uint32_t begin = range.begin / kCell * kCell;
  const std::uint64_t end = (std::uint64_t{range.end} + kCell - 1) / kCell * kCell;
  return BlockRange{begin, static_cast<std::uint32_t>(std::min<std::uint64_t>(end, length))};
}

std::uint64_t CellChecksum(const void* bytes, std::size_t size) {
#ifdef FOREBAY_XXH_DISPATCH
  // The same number with the widest instructions that the processor has.
  return XXH3_64bits_dispatch(bytes, size);
#else
  return XXH3_64bits(bytes, size);
#endif
}

BlockId BlockAt(const ObjectVersion& version, std::uint64_t size, std::uint64_t block_bytes,
                std::uint64_t position) {
  const std::uint64_t offset = position / block_bytes * block_bytes;
  const std::uint64_t length = std::min(block_bytes, size - offset);
  return BlockId{version, offset, static_cast<std::uint32_t>(length)};
}

}  // namespace forebay
