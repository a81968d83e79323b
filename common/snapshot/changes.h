#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// One name that means something else in the next generation.
struct SnapshotChange {
  enum class Kind : std::uint8_t {
    kAdded,
    kRemoved,
    kReplaced,  ///< Another version of the file, or a file where a folder was.
    kTouched,   ///< The same node with another time.
  };
  Kind kind = Kind::kAdded;
  std::uint64_t parent = 0;  ///< Nodeid of the folder, which is in both generations.
  std::string_view name;     ///< Valid during the call.
  std::uint64_t nodeid = 0;  ///< In the generation after; before, for kRemoved.
};

/// Calls `visit` for every difference below two folders of one path, until it answers false. What
/// lies below a folder that was added or removed is not visited: its own name says it all. Folders
/// whose time alone differs are touched. kCorrupt: a snapshot is damaged.
Status ForEachChange(const Snapshot& before, std::uint32_t directory_before, const Snapshot& after,
                     std::uint32_t directory_after,
                     const std::function<bool(const SnapshotChange&)>& visit);

}  // namespace forebay
