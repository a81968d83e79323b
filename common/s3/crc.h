#pragma once

#include <cstdint>

#include "common/base/buffer.h"

namespace forebay {

// Our own, because no library of Debian 12 has all three (ISA-L has the last from 2.31 on), and but
// for zlib, which has the first alone, none puts two checksums together.

/// The checksums of a whole object that can be put together from those of its parts.
enum class CrcKind : std::uint8_t {
  kCrc32 = 1,      ///< ISO-HDLC, as zlib's.
  kCrc32c = 2,     ///< Castagnoli (RFC 3720).
  kCrc64Nvme = 3,  ///< NVM Express; what S3 computes where nobody asks for another one.
};

/// The checksum of what came before, followed by `bytes`. Begins with 0.
std::uint64_t UpdateCrc(CrcKind kind, std::uint64_t crc, ByteView bytes);

/// The checksum of two byte strings put together, of which the second has `second_bytes` bytes.
std::uint64_t CombineCrc(CrcKind kind, std::uint64_t first, std::uint64_t second,
                         std::uint64_t second_bytes);

}  // namespace forebay
