#pragma once

#include <bitset>
#include <cstdint>
#include <memory>

#include "common/model/block_sample.h"

namespace forebay {

/// How far a job is in its passes over a link, by the sampled blocks that its mounts touched. Real
/// loaders are no clean permutations, so a block that comes again is not yet a new epoch (DESIGN
/// 6.7). An epoch turns when
/// - at least 95 % is consumed, and blocks that were touched before that come again: early re-reads
///   and a validation set that is read several times change nothing before, and the rest of the
///   pass is still counted to it; or
/// - a quarter of what was touched has come again while hardly anything new came: the job reads a
///   part of the link, and that part is its whole from now on.
/// Reads that the kernel's page cache serves are seen by nobody; an epoch of nothing else does not
/// turn. Pure; about 24 KiB.
class EpochEstimate {
 public:
  /// `sample_size` as BlockSample::size, above 0. `epoch` as known from elsewhere.
  explicit EpochEstimate(double sample_size, std::uint64_t epoch = 1);

  /// `place` is below BlockSample::kPlaces.
  void Touch(std::uint32_t place);

  std::uint64_t epoch() const { return epoch_; }  ///< The first is 1.
  double progress() const;                        ///< Of the epoch, 0..1.

 private:
  /// Which places were touched, and how many.
  struct Places {
    std::bitset<BlockSample::kPlaces> bits;
    std::uint32_t count = 0;

    bool Add(std::uint32_t place) {
      if (bits.test(place)) return false;
      bits.set(place);
      ++count;
      return true;
    }
    double Distinct() const { return BlockSample::DistinctAt(count); }
  };
  struct Bitmaps {
    Places current;
    Places tail;  // of `current`, what came after 95 % were consumed
    Places next;  // came again
  };

  bool Consumed() const;
  bool TurnsNow() const;
  void Turn();

  double size_;  // blocks of an epoch
  std::uint64_t epoch_;
  std::unique_ptr<Bitmaps> places_;
  bool consumed_ = false;
  double next_since_ = 0;  // blocks in `current` when `next` was begun
};

}  // namespace forebay
