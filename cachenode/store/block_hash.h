#pragma once

#include <cstdint>
#include <functional>

#include "common/model/block_id.h"

namespace forebay {

/// std::hash is what maps need; where a shard and a place in it are taken out of one hash, it has
/// to be mixed once more (the finaliser of MurmurHash3).
inline std::uint64_t MixedHash(const BlockId& block) {
  std::uint64_t h = std::hash<BlockId>()(block);
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDULL;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return h ^ (h >> 33);
}

}  // namespace forebay
