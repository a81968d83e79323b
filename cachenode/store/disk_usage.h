#pragma once

#include <cstdint>
#include <string>

#include "common/model/disk_state.h"

namespace forebay {

/// What went wrong with a disk since Open.
struct DiskErrors {
  std::uint64_t read = 0;
  std::uint64_t write = 0;
  std::uint64_t full = 0;  ///< No space left although we are within our capacity.
  std::uint64_t hang = 0;  ///< Calls that were given up because they took too long.
  std::uint64_t gone = 0;  ///< The directory was found not to be the one that was opened.
};

struct DiskUsage {
  std::string path;
  DiskState state = DiskState::kOk;  ///< Never kMissing: its node left such a disk out.
  std::uint64_t used_bytes =
      0;  ///< On disk: records with headers and padding, without punched holes.
  std::uint64_t capacity_bytes = 0;
  /// Of the capacity, what blocks may take, each BlockDiskBytes: less what the index needs beside
  /// its rows, and what others have taken of the file system. 0 on a disk that takes no blocks.
  std::uint64_t usable_bytes = 0;
  std::uint64_t scrubbed_bytes = 0;  ///< Read by Scrub since Open.
  DiskErrors errors = {};
};

}  // namespace forebay
