#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

// When a job reads so much of a link that the rest of it is worth fetching (docs/PRELOAD.md,
// "Background fill").
namespace forebay {

/// Blocks that one job must read within kReadThroughWindow: 1,000, or 1 % of the link, whichever is
/// less. Of a small link 64 at least, so that somebody who looks into a few files of a folder does
/// not pull in the rest; it is a minute's reading at most where nothing is cached. 0 = never: it is
/// not known how large the link is.
constexpr std::uint64_t BlocksOfReadThrough(std::uint64_t link_blocks) {
  constexpr std::uint64_t kLeast = 64;
  constexpr std::uint64_t kMost = 1000;
  if (link_blocks == 0) return 0;
  return std::clamp(link_blocks / 100, std::min(kLeast, link_blocks), kMost);
}

inline constexpr std::chrono::minutes kReadThroughWindow{1};

/// A block counts when half of it was asked for, and its object when one part in so many of its
/// blocks was: who takes a record out of each of many large shards reads no shard.
inline constexpr std::uint64_t kObjectPart = 16;

}  // namespace forebay
