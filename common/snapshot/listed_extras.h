#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/snapshot/snapshot_builder.h"
#include "common/snapshot/snapshot_format.h"

namespace forebay {

// What few listings have beside keys, ETags and sizes, as it waits with an entry of a listing.

SnapshotPosixRecord PosixRecordOf(const PosixAttributes& posix);
PosixAttributes PosixOfRecord(const SnapshotPosixRecord& record);

/// The extras of `object` in one text; "" = none.
std::string PackExtras(const ListedKey& object);

/// Reads a text of PackExtras.
class ListedExtras {
 public:
  explicit ListedExtras(std::string_view packed);

  const std::optional<SnapshotPosixRecord>& posix() const { return posix_; }
  /// The next line of the manifest that names the object; nothing behind the last.
  std::optional<AttributeLine> NextLine();

 private:
  std::optional<SnapshotPosixRecord> posix_;
  std::string_view lines_;
};

}  // namespace forebay
