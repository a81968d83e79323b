#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

/// Tells, while a link or a part of it is listed again, that nothing has changed since an earlier
/// generation: then no snapshot need be built to be compared with it (Compare). It may fail to
/// tell: where keys are hidden, folders have markers or objects have attributes beside the listing,
/// the answer is "perhaps not". It never says so wrongly. One thread.
class SameListing {
 public:
  /// `part` as in partial_refresh.h; "" = everything.
  SameListing(const Snapshot& previous, std::string_view part);

  /// The next object, each once. False: perhaps not the same; no more need be taken.
  bool Take(const ListedKey& object);

  /// After the last object.
  bool IsSame() const { return possible_ && files_left_ == 0; }

 private:
  bool HasLines(const SnapshotRow& row, std::span<const AttributeLine> lines) const;

  const Snapshot& previous_;
  bool possible_ = false;
  std::uint64_t files_left_ = 0;
};

}  // namespace forebay
