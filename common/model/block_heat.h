#pragma once

#include <cstdint>

namespace forebay {

/// How soon somebody may want a cached block again, coldest first. The values travel on the wire
/// and never change their meaning.
enum class BlockHeat : std::uint8_t {
  kCold = 0,
  kUsedToday = 1,     ///< In the last 24 hours.
  kUsedThisHour = 2,  ///< Or in the one before.
  kWanted = 3,        ///< A job that runs will read it.
  kWantedMost = 4,    ///< And sooner than the usual block of its link.
};
inline constexpr std::uint8_t kHottest = static_cast<std::uint8_t>(BlockHeat::kWantedMost);

}  // namespace forebay
