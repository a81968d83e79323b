#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot_format.h"

namespace forebay {

/// One showable key of a listing, as it waits for its place in the snapshot.
struct ListedEntry {
  static constexpr std::uint8_t kOutOfRange = 1;  ///< HiddenReason::kOutOfRange; shows nothing.
  static constexpr std::uint8_t kExtras = 2;      ///< Of PackExtras, with their length before.

  /// In the texts: the path (a marker keeps its slash), the ETag, the extras.
  std::uint64_t text_begin;
  SnapshotAttributes attributes;
  std::uint32_t mtime_unix_s;
  std::uint16_t path_bytes;
  std::uint8_t opaque_bytes;  ///< Of an ETag that is no MD5; it stands behind the path.
  std::uint8_t flags;
  std::array<std::uint8_t, 16> etag;

  bool out_of_range() const { return (flags & kOutOfRange) != 0; }
  bool has_extras() const { return (flags & kExtras) != 0; }
};
static_assert(sizeof(ListedEntry) == 40);

/// Any number of entries with their texts, in the order of ComparePaths once they are sorted. What
/// does not fit into the memory that is allowed goes to files of sorted runs, which nobody sees and
/// which are gone with this object, or with the process.
class ListingRuns {
 public:
  /// Files are made beside `path`. About `memory_bytes` are held before they are written there.
  ListingRuns(std::string path, std::size_t memory_bytes);
  ~ListingRuns();
  ListingRuns(const ListingRuns&) = delete;
  ListingRuns& operator=(const ListingRuns&) = delete;

  /// Takes an entry with its path, its opaque ETag and its extras ("" = none); sets their place and
  /// sizes. kInternal: the disk failed.
  Status Add(ListedEntry entry, std::string_view path, std::string_view opaque_etag,
             std::string_view extras);

  /// So much of the memory is used beside them: files are written the sooner.
  void SetHeldBeside(std::size_t bytes) { held_beside_ = bytes; }

  /// Call once, after the last Add. Equal paths stay in the order in which they were added.
  Status Sort();

  /// After Sort. Views are good as long as this object.
  std::span<const ListedEntry> entries() const { return entries_; }
  std::string_view PathOf(const ListedEntry& entry) const {
    return {texts_ + entry.text_begin, entry.path_bytes};
  }
  std::string_view OpaqueEtagOf(const ListedEntry& entry) const {
    return {texts_ + entry.text_begin + entry.path_bytes, entry.opaque_bytes};
  }

  std::string_view ExtrasOf(const ListedEntry& entry) const { return ExtrasAt(entry, texts_); }

  /// What was read of the files until now need not stay in memory. Cheap; for loops over millions.
  void Relax() const;

  std::size_t runs() const { return runs_.size(); }  ///< Files so far; 0 = all is in memory.

 private:
  class Run;
  class Cursor;

  static std::string_view ExtrasAt(const ListedEntry& entry, const char* texts);

  void SortMemory();
  Status Spill();
  Status Merge();

  const std::string path_;
  const std::size_t memory_bytes_;
  std::size_t held_beside_ = 0;
  std::vector<ListedEntry> memory_;
  std::string memory_texts_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::span<const ListedEntry> entries_;
  const char* texts_ = nullptr;
};

}  // namespace forebay
