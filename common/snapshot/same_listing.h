#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

/// Tells, while a link or a part of it is listed again, that nothing has changed since an earlier
/// generation: then no snapshot need be built to be compared with it (Compare). It may fail to
/// tell: where keys are hidden, folders have markers or objects have attributes beside the listing,
/// the answer is "perhaps not". It never says so wrongly. Holds 24 bytes for each line of a
/// manifest that it met. One thread.
class SameListing {
 public:
  /// `part` as in partial_refresh.h; "" = everything.
  SameListing(const Snapshot& previous, std::string_view part);

  /// The next object, each once. False: perhaps not the same; no more need be taken.
  bool Take(const ListedKey& object);

  /// After the last object, once.
  bool IsSame();

 private:
  struct Line {
    std::uint64_t now = 0;  // its place in what is listed
    std::uint32_t row = 0;
    std::uint64_t then = 0;  // in `previous`
  };
  bool HasLines(const SnapshotRow& row, std::span<const AttributeLine> lines);
  bool HaveLinesTheirOrder();

  const Snapshot& previous_;
  std::vector<Line> lines_;
  bool possible_ = false;
  std::uint64_t files_left_ = 0;
};

}  // namespace forebay
