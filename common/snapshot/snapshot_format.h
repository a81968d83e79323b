#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "common/model/key_rules.h"
#include "common/model/limits.h"

// The bytes of a snapshot file, as docs/SNAPSHOT_FORMAT.md describes them. Only the builder and the
// reader need this header; everybody else uses snapshot.h and snapshot_builder.h.
namespace forebay {

static_assert(std::endian::native == std::endian::little, "the format is little endian and mapped");

inline constexpr std::array<char, 8> kSnapshotMagic = {'F', 'B', 'S', 'N', 'A', 'P', '\r', '\n'};
inline constexpr std::uint32_t kSnapshotFormat = 1;
inline constexpr std::uint32_t kSnapshotFormatWithExtras = 2;  ///< SnapshotExtras follow kHidden.
inline constexpr std::size_t kSnapshotAlignment = 64;          ///< Of every section: a cache line.
inline constexpr std::uint32_t kNameGroupRows = 16;  ///< Names that are front-coded together.
inline constexpr std::uint64_t kLargeObjectBytes = 8ULL << 20;  ///< DESIGN 6.2: "large" mode.

inline constexpr std::uint64_t kRootNodeid = 1;
inline constexpr std::uint64_t kFirstFileNodeid = 1024;  ///< Below: the root, control files.
inline constexpr std::uint64_t kDirectoryNodeidBit = 1ULL << 62;
inline constexpr std::uint32_t kRootDirectory = 0;

/// Order of the sections in the file and of their places in the header.
enum class SnapshotSection : std::uint8_t {
  kSource,       ///< Endpoint, bucket, prefix, one after the other.
  kDirectories,  ///< SnapshotDirectoryRecord each.
  kPaths,        ///< Bytes that the directory records point into.
  kNameGroups,   ///< u32 each: where the group of 16 rows begins in kNames.
  kNames,        ///< Front-coded names (name_groups.h).
  kRows,         ///< SnapshotRowRecord each.
  kNameTags,     ///< u8 per slot: 0 = empty, else NameTag of the row's hash.
  kNameSlots,    ///< u32 per slot: the row.
  kNodeidSlots,  ///< u32 per slot: the row, 0 = empty (the root is not in the table).
  kEtags,        ///< ETags that are no MD5.
  kHidden,       ///< u8 reason, u16 bytes, key; each.
  kCells,        ///< u64 each: XXH3-64 of every 64 KiB of the file before this section.
};
inline constexpr std::size_t kSnapshotSections = 12;

struct SnapshotSectionRecord {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct SnapshotHeader {
  std::array<char, 8> magic;
  std::uint32_t format;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  std::array<std::uint8_t, 16> link;
  std::array<std::uint8_t, 16> domain;
  std::uint64_t generation;
  std::uint64_t block_bytes;
  std::uint64_t listed_unix_s;
  std::uint32_t extras_place;  ///< Of SnapshotExtras, in units of kSnapshotAlignment; 0 = none.
  std::array<std::uint32_t, 3> source_bytes;  ///< Of endpoint, bucket, prefix.
  std::uint32_t rows;
  std::uint32_t directories;
  std::uint32_t slots;  ///< Of the name table, and of the nodeid table.
  std::uint32_t reserved_too;
  std::uint64_t object_bytes;
  std::uint64_t large_bytes;
  std::array<std::uint64_t, kHiddenReasonSlots> hidden_by_reason;
  std::array<SnapshotSectionRecord, kSnapshotSections> sections;
  std::uint64_t checksum;  ///< XXH3-64 of everything before it.

  const SnapshotSectionRecord& section(SnapshotSection s) const {
    return sections[static_cast<std::size_t>(s)];
  }
};
static_assert(sizeof(SnapshotHeader) == 456 && std::is_trivially_copyable_v<SnapshotHeader>);

#pragma pack(push, 1)
struct SnapshotRowRecord {
  std::uint64_t nodeid;
  std::uint64_t packed;  ///< PackAttributes().
  std::uint32_t mtime_unix_s;
  std::array<std::uint8_t, 16> etag;  ///< MD5; or, opaque, OpaqueEtag; or, a directory, zero.
};
static_assert(sizeof(SnapshotRowRecord) == 36);

struct SnapshotOpaqueEtag {
  std::uint64_t offset;  ///< In kEtags.
  std::uint16_t bytes;
  std::array<std::uint8_t, 6> zero;
};
static_assert(sizeof(SnapshotOpaqueEtag) == 16);
#pragma pack(pop)

/// Where the extras are: between kHidden and kCells, each 0 bytes long where there is nothing.
struct SnapshotExtras {
  SnapshotSectionRecord posix;      ///< SnapshotPosixRecord per row.
  SnapshotSectionRecord line_rows;  ///< u64 per row: 1 + where its first line is, or 0.
  SnapshotSectionRecord lines;      ///< SnapshotLineRecord and text each, in the manifest's order.
};
static_assert(sizeof(SnapshotExtras) == 48);

struct SnapshotPosixRecord {
  static constexpr std::uint16_t kAsked = 1;  ///< S3 was asked about this row.
  static constexpr std::uint16_t kMode = 2;
  static constexpr std::uint16_t kUid = 4;
  static constexpr std::uint16_t kGid = 8;
  static constexpr std::uint16_t kMtime = 16;

  std::int64_t mtime_unix_s;
  std::uint32_t mtime_nanoseconds;
  std::uint32_t uid;
  std::uint32_t gid;
  std::uint16_t mode;
  std::uint16_t known;  ///< Bits as above.
};
static_assert(sizeof(SnapshotPosixRecord) == 24);

struct SnapshotLineRecord {
  std::uint32_t row;
  std::uint32_t bytes;  ///< Of the text that follows.
  std::uint64_t next;   ///< 1 + where the row's next line is, or 0.
};
static_assert(sizeof(SnapshotLineRecord) == 16);

struct SnapshotDirectoryRecord {
  std::uint32_t path_offset;  ///< In kPaths.
  std::uint16_t path_bytes;
  std::uint16_t zero;
  std::uint32_t parent;
  std::uint32_t row;
  std::uint32_t first_row;
  std::uint32_t row_count;
  std::uint32_t end;
};
static_assert(sizeof(SnapshotDirectoryRecord) == 28);

/// Size (or a directory's number), flags and part count in one word.
struct SnapshotAttributes {
  static constexpr int kSizeBits = 44;  ///< 16 TiB.
  static constexpr std::uint64_t kMaxSize = (1ULL << kSizeBits) - 1;
  static constexpr std::uint64_t kDirectoryBit = 1ULL << 44;
  static constexpr std::uint64_t kArchivedBit = 1ULL << 45;
  static constexpr std::uint64_t kOpaqueEtagBit = 1ULL << 46;
  static constexpr int kPartsShift = 48;

  std::uint64_t packed = 0;

  std::uint64_t size() const { return packed & kMaxSize; }
  bool directory() const { return (packed & kDirectoryBit) != 0; }
  bool archived() const { return (packed & kArchivedBit) != 0; }
  bool opaque_etag() const { return (packed & kOpaqueEtagBit) != 0; }
  /// The N of a multipart ETag "<32 hex digits>-N"; 0 = none.
  std::uint16_t parts() const { return static_cast<std::uint16_t>(packed >> kPartsShift); }
};

static_assert(SnapshotAttributes::kMaxSize == kMaxObjectBytes);

/// The hash that kNameSlots is placed by: slot = high 64 bits of (hash x slots), then linear.
std::uint64_t SnapshotNameHash(std::uint32_t directory, std::string_view name);
std::uint64_t SnapshotFirstSlot(std::uint64_t hash, std::uint64_t slots);
std::uint8_t SnapshotNameTag(std::uint64_t hash);  ///< Never 0.

/// The slot of a nodeid, which is a hash already: its low 62 bits scaled to `slots`, then linear.
std::uint64_t SnapshotNodeidSlot(std::uint64_t nodeid, std::uint64_t slots);

/// Slots of either table for `rows` rows: at most 0.8 full. One that is there then costs 3 probes,
/// a name that is not there 13 of one byte.
std::uint64_t SnapshotSlots(std::uint64_t rows);

}  // namespace forebay
