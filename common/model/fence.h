#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/model/object_version.h"

namespace forebay {

/// How far the state of a coordinator has come. Both numbers only go up, also over a restore.
struct StateVersion {
  std::uint64_t links = 0;  ///< LinkRegistry::version().
  std::uint64_t ring = 0;   ///< RingTable::epoch().

  bool operator==(const StateVersion&) const = default;
};

/// Which coordinator speaks (DESIGN 6.10). Each start of one claims the next epoch, and a claim of
/// its own: two that were started from copies of one state have the same epoch and differ in it.
struct Fence {
  std::uint64_t epoch = 0;  ///< 0 = none was heard of, or one that does not say it.
  Uuid claim;
  /// Of a coordinator that speaks: what it began with. Of who has heard of it: what it has shown
  /// since. Nothing: a release that does not say it.
  std::optional<StateVersion> state = std::nullopt;

  bool operator==(const Fence&) const = default;
};

/// Whether who has heard of `heard` believes what is said under `said`: the same coordinator, or a
/// newer one that began with what the one before had shown. A copy of the state that was made while
/// that one ran has its epoch, and claims the next one, too; but it lacks what was written since.
inline bool Believes(const Fence& heard, const Fence& said) {
  if (said.epoch == heard.epoch) return said.claim == heard.claim;
  if (said.epoch < heard.epoch) return false;
  // Who has heard of nobody does not know who has shown it what it knows.
  if (heard.epoch == 0 || !heard.state || !said.state) return true;
  return said.state->links >= heard.state->links && said.state->ring >= heard.state->ring;
}

/// For a sentence: "fencing epoch 7, links 12, ring 5".
std::string DescribeFence(const Fence& fence);

}  // namespace forebay
