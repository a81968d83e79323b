#pragma once

#include <cstdint>

namespace forebay {

/// What became of one block that a node was asked to keep. The values travel on the wire
/// (FillResult) and never change their meaning.
enum class FillOutcome : std::uint8_t {
  kKept = 1,    ///< It was cached before, in this store or at another node.
  kFilled = 2,  ///< It is in the store now: it was fetched for this.
  kNoRoom = 3,  ///< It is not in the store, which has no space that may be freed for it.
  kFailed = 4,  ///< It could not be fetched, or not be looked for; a code and a message say why.
};

}  // namespace forebay
