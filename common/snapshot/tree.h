#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/listing.h"

namespace forebay {

/// The shape of a snapshot: its directories in preorder and its rows by (directory, name).
/// Refers to the listing's texts; the listing must outlive it.
struct SnapshotTree {
  static constexpr std::uint32_t kNoMarker = 0xFFFF'FFFF;

  struct Directory {
    std::string_view path;
    std::uint32_t parent = 0;
    std::uint32_t row = 0;
    std::uint32_t first_row = 0;
    std::uint32_t row_count = 0;
    std::uint32_t end = 0;
    std::uint32_t mtime_unix_s = 0;    ///< The newest below it.
    std::uint32_t marker = kNoMarker;  ///< The listing's entry for it.
  };
  /// What a row shows: an entry of the listing or a directory.
  struct Row {
    std::uint32_t directory : 1;
    std::uint32_t number : 31;
  };
  static constexpr std::uint64_t kMaxRows = 1ULL << 31;

  std::vector<Directory> directories;
  std::vector<Row> rows;

  /// The entry that a row comes from; nothing for a directory without a marker.
  std::optional<std::uint32_t> EntryOf(std::uint32_t row) const;
  std::string_view PathOf(const Listing& listing, std::uint32_t row) const;
  std::string_view NameOf(const Listing& listing, std::uint32_t row) const;
};

/// From a sorted listing: lets the last of equal keys win and a directory over a file of its name,
/// and adds what is thereby hidden to the listing's hidden keys. kInvalid: more than kMaxRows.
Result<SnapshotTree> BuildTree(Listing& listing);

}  // namespace forebay
