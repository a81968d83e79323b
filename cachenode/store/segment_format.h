#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/limits.h"
#include "common/model/object_version.h"
#include "common/model/record_size.h"

// The bytes of a record, as docs/STORE_FORMAT.md describes them. Pure.
namespace forebay {

inline constexpr std::array<std::uint8_t, 8> kRecordMagic = {'F', 'B',  'R',  'E',
                                                             'C', '\r', '\n', 0x1A};
inline constexpr std::uint32_t kRecordFormat = 1;

/// What stands before a block's bytes in a segment.
struct RecordHeader {
  Uuid cluster;
  Uuid link;
  BlockId block;
  std::uint64_t segment = 0;               ///< The number in the segment file's name.
  std::uint64_t position = 0;              ///< The record's first byte in the segment.
  std::vector<std::uint64_t> checksums{};  ///< One CellChecksum per cell of the block.

  bool operator==(const RecordHeader&) const = default;
};

/// The seed of the header checksums of one cache directory. Derived from the directory's uuid,
/// which never leaves the machine: neither a record of another directory nor bytes that somebody
/// put into an object can pass for a record of this one.
std::uint64_t RecordSeed(const Uuid& directory);

/// The header's RecordHeaderBytes(block.length) bytes. `checksums` has block.cells() elements.
std::vector<std::byte> EncodeRecordHeader(const RecordHeader& header, std::uint64_t seed);

/// Reads the header at the beginning of `bytes`, which may be longer. kCorrupt: no record of this
/// format and directory. Nothing is believed, and nothing allocated, before its bounds are checked.
Result<RecordHeader> DecodeRecordHeader(ByteView bytes, std::uint64_t seed);

}  // namespace forebay
