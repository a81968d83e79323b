#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/wall_clock.h"
#include "common/model/block_id.h"
#include "common/model/block_loss.h"

namespace forebay {

/// The last things that happened to one block at this node. Times are seconds since 1970, 0 = not
/// since `since_unix_s`; what was before that is not known.
struct BlockEvents {
  std::int64_t since_unix_s = 0;
  std::int64_t read_unix_s = 0;
  std::string job = {};  ///< That read it; "" = none was named, or more than kJobs have read since.
  std::int64_t lost_unix_s = 0;
  BlockLoss loss = BlockLoss::kNone;
};

/// What this node remembers of single blocks, so that `explain` can say who read one last and why
/// it is not there. In memory alone, and bounded: kPlaces of 56 bytes (7.3 MB) and kJobs names of
/// jobs (less than 1 MB). Each block has one place; the next block of that place takes it over.
/// Thread-safe: a lock for each 1/64 of the places, held for a few memory accesses.
class BlockHistory {
 public:
  static constexpr std::size_t kPlaces = 128UL * 1024;
  static constexpr std::size_t kJobs = 1024;

  /// `now_unix_s` for tests; any thread.
  explicit BlockHistory(std::function<std::int64_t()> now_unix_s = UnixSeconds);

  /// Does not wait for another thread: where it would have to, the read is not remembered.
  void NoteRead(const BlockId& block, const std::string& job);
  void NoteLoss(const BlockId& block, BlockLoss loss);

  BlockEvents Find(const BlockId& block) const;

 private:
  struct Place {
    BlockId block;  // of length 0: nobody's yet
    std::uint32_t since_unix_s = 0;
    std::uint32_t read_unix_s = 0;
    std::uint32_t lost_unix_s = 0;
    std::uint32_t job = 0;
    BlockLoss loss = BlockLoss::kNone;
  };
  struct Stripe {
    mutable std::mutex mutex;
    std::vector<Place> places;
  };
  // Jobs are numbered from 1 on; the last kJobs of them have their names here.
  struct Jobs {
    std::uint32_t newest = 0;
    std::vector<std::string> names;
    std::unordered_map<std::string, std::uint32_t> numbers;
  };

  struct Spot {
    std::size_t stripe = 0;
    std::size_t place = 0;
  };

  static Spot SpotOf(const BlockId& block);
  /// The place as this block's: what was known of another one is gone.
  static Place& Take(Place& place, const BlockId& block, std::uint32_t now);
  /// Empty: it would have to wait for another thread.
  std::optional<std::uint32_t> NumberOf(const std::string& job);
  std::string NameOf(std::uint32_t job) const;

  const std::function<std::int64_t()> now_unix_s_;
  std::vector<Stripe> stripes_;
  mutable std::shared_mutex jobs_mutex_;
  Jobs jobs_;
};

}  // namespace forebay
