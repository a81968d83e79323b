#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/model/fill_outcome.h"
#include "coordinator/preload_plan.h"

namespace forebay {

/// What has become of the objects and bytes of a preload.
struct PreloadCounts {
  std::uint64_t objects = 0;  ///< Kept, with all their blocks.
  std::uint64_t bytes = 0;    ///< Kept.
  std::uint64_t failed = 0;   ///< Objects of which a block failed.
  std::uint64_t failed_bytes = 0;
  std::uint64_t not_kept = 0;  ///< Objects of which a block found no room, and none failed.
  std::uint64_t not_kept_bytes = 0;
  std::uint64_t fetched_blocks = 0;  ///< Were not kept before.
  std::uint64_t fetched_bytes = 0;

  bool operator==(const PreloadCounts&) const = default;
};

/// Which pieces of a preload's walk have an outcome. Outcomes come in any order; what is behind the
/// checkpoint need not be asked for again. Pure. Not thread-safe.
class PreloadLedger {
 public:
  /// The beginning of an object: all pieces before `cursor` have outcomes, and `counts` are theirs.
  struct Checkpoint {
    std::uint64_t cursor = 0;
    PreloadCounts counts;
  };
  struct FailedObject {
    std::uint32_t row = 0;
    std::string reason;
  };

  explicit PreloadLedger(const Checkpoint& from)
      : first_(from.cursor), live_(from.counts), behind_(from.counts), checkpoint_(from) {}

  /// The next piece of the walk; its number.
  std::uint64_t Add(const PreloadPiece& piece);
  /// The outcome of piece `number`, which has none yet; `reason` of one that failed.
  void Settle(std::uint64_t number, FillOutcome outcome, std::string reason = "");

  /// Pieces from the first without an outcome on.
  std::size_t open() const { return window_.size(); }
  /// As far as is known now.
  const PreloadCounts& counts() const { return live_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  /// Objects that failed and are behind the checkpoint, since the last call.
  std::vector<FailedObject> TakeFailed();

 private:
  struct Entry {
    std::uint32_t row = 0;
    std::uint32_t length = 0;
    bool ends_object = false;
    bool settled = false;
    FillOutcome outcome = FillOutcome::kKept;
    std::string reason;
  };

  static void CountBytes(PreloadCounts& counts, const Entry& entry);
  void Pass(Entry entry);

  std::uint64_t first_;       // number of window_'s first entry
  std::deque<Entry> window_;  // the first has no outcome
  PreloadCounts live_;        // bytes of all that has an outcome, objects of what has been passed
  PreloadCounts behind_;      // of what has been passed
  Checkpoint checkpoint_;
  // The object that is being passed.
  FillOutcome worst_ = FillOutcome::kKept;
  std::string reason_;
  std::vector<FailedObject> failed_;
};

}  // namespace forebay
