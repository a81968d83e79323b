#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The bytes of a difference between two generations, as docs/SNAPSHOT_FORMAT.md describes them.
// Only those who write and read it need this header; everybody else uses delta.h.
namespace forebay {

inline constexpr std::array<char, 8> kDeltaMagic = {'F', 'B', 'D', 'I', 'F', 'F', '\r', '\n'};
inline constexpr std::uint32_t kDeltaFormat = 1;

struct DeltaHeader {
  std::array<char, 8> magic;
  std::uint32_t format;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  std::array<std::uint8_t, 16> link;
  std::uint64_t before;                        ///< Generation that it is applied to…
  std::uint64_t after;                         ///< …and that comes of it.
  std::array<std::uint64_t, 2> before_digest;  ///< Of the whole file: high, low.
  std::array<std::uint64_t, 2> after_digest;
  std::uint64_t listed_unix_s;  ///< Of the generation after.
  std::uint64_t block_bytes;    ///< Likewise.
  std::uint64_t entries_bytes;
  std::uint64_t hidden_bytes;
  std::uint64_t body_checksum;  ///< XXH3-64 of what follows the header.
  std::uint64_t checksum;       ///< XXH3-64 of everything before it.
};
static_assert(sizeof(DeltaHeader) == 136 && std::is_trivially_copyable_v<DeltaHeader>);

/// The first byte of an entry: its kind, and what follows.
struct DeltaEntryBits {
  static constexpr std::uint8_t kRemoved = 0;
  static constexpr std::uint8_t kFile = 1;
  static constexpr std::uint8_t kFolder = 2;
  static constexpr std::uint8_t kKindMask = 3;
  static constexpr std::uint8_t kMarked = 4;    ///< Of a folder: it has a FolderMark.
  static constexpr std::uint8_t kArchived = 8;  ///< Of a file, as the next two.
  static constexpr std::uint8_t kOpaqueEtag = 16;
  static constexpr std::uint8_t kParts = 32;  ///< Of an MD5: its number of parts follows.
  static constexpr std::uint8_t kPosix = 64;  ///< A SnapshotPosixRecord follows.
};

}  // namespace forebay
