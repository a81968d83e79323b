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
inline constexpr std::uint32_t kDeltaFormatWithLines = 2;  ///< Files have lines of a manifest.

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
  static constexpr std::uint8_t kParts = 32;   ///< Of an MD5: its number of parts follows.
  static constexpr std::uint8_t kPosix = 64;   ///< A SnapshotPosixRecord follows.
  static constexpr std::uint8_t kLines = 128;  ///< Of a file: lines of a manifest follow.
};

/// Lines of an augmented manifest of one file that a difference can say.
inline constexpr std::uint64_t kDeltaLinesMax = 1 << 20;

/// Places of lines in a generation that is made of the one before: what stays has the place that it
/// has there, and ahead of each is room for new ones.
struct DeltaLinePlace {
  static constexpr int kNumberBits = 24;
  static constexpr std::uint64_t kLast = (1 << kNumberBits) - 1;
  static constexpr std::uint64_t kBeforeMax = (std::uint64_t{1} << (64 - kNumberBits)) - 1;

  std::uint64_t before = 0;      ///< Of the line that it is, or is ahead of; their end behind all.
  std::uint64_t number = kLast;  ///< Among the new ones ahead of the same; kLast: the line itself.

  std::uint64_t Packed() const { return before << kNumberBits | number; }
  static DeltaLinePlace Of(std::uint64_t packed) {
    return {.before = packed >> kNumberBits, .number = packed & kLast};
  }
};

}  // namespace forebay
