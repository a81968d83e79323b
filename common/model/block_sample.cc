#include "common/model/block_sample.h"

#include <algorithm>
#include <cmath>

namespace forebay {

namespace {

// The finalizer of MurmurHash3: each bit of the input changes half of the output's. A version is a
// hash already; this mixes in the offset.
std::uint64_t Mixed(const BlockId& block) {
  std::uint64_t hash = block.version.low ^ (block.offset * 0x9E3779B97F4A7C15ULL);
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDULL;
  hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return hash ^ (hash >> 33);
}

}  // namespace

BlockSample::BlockSample(std::uint64_t blocks_of_link) {
  std::uint64_t chosen = blocks_of_link;
  while (chosen > kSampledBlocks) {
    chosen /= 2;
    mask_ = mask_ * 2 + 1;
  }
  size_ = static_cast<double>(blocks_of_link) / static_cast<double>(mask_ + 1);
}

std::optional<std::uint32_t> BlockSample::PlaceOf(const BlockId& block) const {
  const std::uint64_t hash = Mixed(block);
  if ((hash & mask_) != 0) return std::nullopt;
  // The top bits: a link of 2^61 blocks does not use them for the choice.
  return static_cast<std::uint32_t>(hash >> 48);
}

double BlockSample::DistinctAt(std::uint32_t places) {
  const double all = kPlaces;
  const double used = std::min<double>(places, all - 1);
  return -all * std::log1p(-used / all);
}

}  // namespace forebay
