#pragma once

#include <cstdint>

namespace forebay {

/// Why a block is in a store no more, or did not come into it. The values travel on the wire
/// (BlockDescription) and never change their meaning.
enum class BlockLoss : std::uint8_t {
  kNone = 0,
  kReplaced = 1,    ///< Evicted: the disk was full, and other blocks came.
  kOverQuota = 2,   ///< Evicted: its link's quota had no room for it.
  kAsked = 3,       ///< Evicted: somebody said so (`evict`, `unlink --evict`).
  kDamaged = 4,     ///< Dropped: it could not be read as what it was when it was filled.
  kNoRoom = 5,      ///< Not kept: no space may be freed for it, or its link is at its quota.
  kUnwritable = 6,  ///< Not kept: the disks refuse to write.
  kSetAside = 7,    ///< Not kept: its node crashed on it, again and again.
  kReleased = 8,    ///< Given up: it was pinned, and the nodes that own it have it.
};

}  // namespace forebay
