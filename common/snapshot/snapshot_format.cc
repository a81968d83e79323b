#include "common/snapshot/snapshot_format.h"

#include <xxhash.h>

#include <algorithm>

namespace forebay {

std::uint64_t SnapshotNameHash(std::uint32_t directory, std::string_view name) {
  return XXH3_64bits_withSeed(name.data(), name.size(), directory);
}

std::uint64_t SnapshotFirstSlot(std::uint64_t hash, std::uint64_t slots) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * slots >> 64);
}

std::uint8_t SnapshotNameTag(std::uint64_t hash) {
  return static_cast<std::uint8_t>(std::max<std::uint64_t>(hash & 0xFF, 1));
}

std::uint64_t SnapshotNodeidSlot(std::uint64_t nodeid, std::uint64_t slots) {
  return SnapshotFirstSlot(nodeid << 2, slots);
}

std::uint64_t SnapshotSlots(std::uint64_t rows) { return rows + rows / 4 + 1; }

}  // namespace forebay
