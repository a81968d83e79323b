#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What has become of the lines of augmented manifests from one generation to the next. Of two that
/// have none nothing is read. Takes 4 bytes for each row of the one after, a bit for each of the
/// one before, and 16 for each line that is new. The snapshots must outlive it.
class DeltaLines {
 public:
  /// More than `bytes_max` of text that is new is too much. kCorrupt: a snapshot is damaged.
  static Result<DeltaLines> Of(const Snapshot& before, const Snapshot& after,
                               std::uint64_t bytes_max);

  /// Why a difference cannot say it; "" = it can.
  std::string_view why_none() const { return why_none_; }
  bool any() const { return any_; }
  /// Of a file of the generation after: its row is the one before, with the same lines.
  bool HasStayed(const SnapshotRow& then, const SnapshotRow& now) const;
  /// Those of any other file, by places of DeltaLinePlace.
  std::vector<AttributeLine> LinesOf(const SnapshotRow& now) const;

 private:
  struct NewLine {
    std::uint64_t at = 0;  // in the snapshot
    std::uint64_t place = 0;
  };
  DeltaLines(const Snapshot& before, const Snapshot& after) : before_(&before), after_(&after) {}

  bool IsSameFile(const SnapshotRow& then, const SnapshotRow& now) const;
  bool FindFiles();
  bool NextThatStays(LineCursor& then) const;
  bool PlaceLines(std::uint64_t bytes_max);

  const Snapshot* before_;
  const Snapshot* after_;
  bool any_ = false;
  std::string_view why_none_;
  std::vector<std::uint32_t> stayed_;  // by row after: 1 + its row before, or 0
  std::vector<bool> stays_;            // by row before
  std::vector<NewLine> new_;           // in their order
};

}  // namespace forebay
