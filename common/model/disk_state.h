#pragma once

#include <cstdint>

namespace forebay {

/// Of one of a node's disks. On the wire (DiskReport.state) as these numbers; one that is not among
/// them comes from a newer node, and such a disk is not in service.
enum class DiskState : std::uint8_t {
  kOk = 0,           ///< In service.
  kReadOnly = 1,     ///< Serves what it holds and takes no blocks.
  kQuarantined = 2,  ///< Failed and is not used.
  kMissing = 3,      ///< Its node started without it.
};

constexpr bool IsState(std::uint32_t reported, DiskState state) {
  return reported == static_cast<std::uint32_t>(state);
}

}  // namespace forebay
