#pragma once

#include <cstdint>

#include "common/model/object_version.h"

namespace forebay {

/// Which coordinator speaks (DESIGN 6.10). Each start of one claims the next epoch, and a claim of
/// its own: two that were started from copies of one state have the same epoch and differ in it.
struct Fence {
  std::uint64_t epoch = 0;  ///< 0 = none was heard of, or one that does not say it.
  Uuid claim;

  bool operator==(const Fence&) const = default;
};

/// Whether who has heard of `heard` believes what is said under `said`: the same coordinator, or a
/// newer one.
inline bool Believes(const Fence& heard, const Fence& said) {
  return said == heard || said.epoch > heard.epoch;
}

}  // namespace forebay
