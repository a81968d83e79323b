#pragma once

#include <cstdint>
#include <optional>

#include "common/model/block_id.h"

namespace forebay {

/// A fixed choice of a link's blocks, the same in every program, by which the progress of a job is
/// estimated: all blocks of a small link, of a larger one about kSampledBlocks. Each chosen block
/// is known by its place, a number below kPlaces; the few blocks that share one are made up for by
/// DistinctAt. Pure.
class BlockSample {
 public:
  static constexpr std::uint32_t kPlaces = 1 << 16;
  static constexpr std::uint64_t kSampledBlocks = 1 << 13;

  explicit BlockSample(std::uint64_t blocks_of_link);

  /// Nothing when the block is not in the sample.
  std::optional<std::uint32_t> PlaceOf(const BlockId& block) const;

  /// How many blocks the sample is expected to have.
  double size() const { return size_; }

  /// How many distinct blocks have so many distinct places (linear counting; Whang, Vander-Zanden,
  /// Taylor 1990).
  static double DistinctAt(std::uint32_t places);

 private:
  std::uint64_t mask_ = 0;  // a block is chosen when these bits of its hash are zero
  double size_ = 0;
};

}  // namespace forebay
