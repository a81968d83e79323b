#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/file_writer.h"
#include "common/snapshot/listing.h"
#include "common/snapshot/snapshot_format.h"
#include "common/snapshot/tree.h"

namespace forebay {

/// The extras of a snapshot that is being built: their sizes first, then their bytes. Holds 24
/// bytes for each line of a manifest. The listing is sorted; both outlive it.
class SnapshotExtrasWriter {
 public:
  SnapshotExtrasWriter(const Listing& listing, const SnapshotTree& tree);

  bool empty() const { return !listing_.has_posix() && !listing_.has_lines(); }
  /// Places the extras behind `offset` and answers where they end; unless they are empty.
  std::uint64_t Place(std::uint64_t offset);
  /// What SnapshotHeader::extras_place is. kInvalid: the listing is too large.
  Result<std::uint32_t> PlaceInHeader() const;
  void Write(SnapshotFileWriter& file) const;

 private:
  struct Line {
    std::uint64_t place = 0;  // in the manifest
    std::uint32_t row = 0;
    const char* json = nullptr;
    std::uint32_t bytes = 0;
  };
  void CollectLines();
  void WritePosix(SnapshotFileWriter& file) const;
  void WriteLines(SnapshotFileWriter& file) const;

  const Listing& listing_;
  const SnapshotTree& tree_;
  std::vector<Line> lines_;  // in the manifest's order
  std::uint64_t offset_ = 0;
  SnapshotExtras places_{};
};

}  // namespace forebay
