#pragma once

#include <cstdint>

#include "common/model/limits.h"

// What a cached block costs on a node's disk (docs/STORE_FORMAT.md): for the store that writes it,
// and for the coordinator that promises room.
namespace forebay {

/// Records begin at multiples of this: the unit in which file systems give space back.
inline constexpr std::uint64_t kRecordAlignment = 4096;
inline constexpr std::uint32_t kRecordFixedBytes = 96;  ///< The header before the checksums.

/// Bytes of the header of a block of `length` bytes; the block's data begins there.
constexpr std::uint32_t RecordHeaderBytes(std::uint32_t length) {
  const std::uint64_t cells = (std::uint64_t{length} + kCellBytes - 1) / kCellBytes;
  return static_cast<std::uint32_t>(kRecordFixedBytes + 8 * cells + 8);
}
static_assert(RecordHeaderBytes(kMaxBlockBytes) <= kRecordAlignment, "a scan reads one page each");

/// What a record occupies on disk: header and data, up to the next record's place.
constexpr std::uint64_t RecordDiskBytes(std::uint32_t length) {
  const std::uint64_t bytes = std::uint64_t{RecordHeaderBytes(length)} + length;
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

/// Of the index, for one block: a row of 38 bytes and, when it is pinned by path, one of 30, each
/// with some ten bytes of RocksDB's; twice, because a compaction writes them anew before it drops
/// the old ones.
inline constexpr std::uint64_t kIndexBytesPerBlock = 192;

/// What a block takes of DiskUsage::usable_bytes.
constexpr std::uint64_t BlockDiskBytes(std::uint32_t length) {
  return RecordDiskBytes(length) + kIndexBytesPerBlock;
}

/// The same for the blocks of one object.
constexpr std::uint64_t ObjectDiskBytes(std::uint64_t size, std::uint64_t block_bytes) {
  const std::uint64_t rest = size % block_bytes;
  const std::uint64_t whole =
      size / block_bytes * BlockDiskBytes(static_cast<std::uint32_t>(block_bytes));
  return rest == 0 ? whole : whole + BlockDiskBytes(static_cast<std::uint32_t>(rest));
}

}  // namespace forebay
