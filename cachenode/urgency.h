#pragma once

#include <cstdint>
#include <functional>

namespace forebay {

/// Who wants a block that is not here. The smaller one goes first.
enum class Urgency : std::uint8_t {
  kReader = 0,  ///< Somebody waits for it.
  kAsked = 1,   ///< A preload, or a reader that will come to it: nobody waits for it yet.
  kSpare = 2,   ///< The rest of a link that a job reads: only what nothing else needs, connections
                ///< to S3 as well as room in the store.
};
inline constexpr int kUrgencies = 3;
/// How urgent a block is by now.
using UrgencyNow = std::function<Urgency()>;

}  // namespace forebay
