#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cachenode/store/block_store.h"
#include "cachenode/store/link_table.h"
#include "cachenode/store/room_claim.h"
#include "common/base/buffer.h"
#include "common/base/result.h"
#include "common/model/block_id.h"

namespace forebay {

/// A block that is to be kept.
struct NewBlock {
  std::shared_ptr<LinkState> link;
  BlockId block;
  Slice data;
  std::vector<std::uint64_t> checksums;
  std::string path;
  bool path_pinned = false;
  Room room = Room::kMayEvict;
};

/// Shared with the work that was begun for it, which may end later than its caller waits.
using Newcomer = std::shared_ptr<const NewBlock>;

/// A block on its way to one disk.
struct Arrival {
  explicit Arrival(Newcomer newcomer, std::shared_ptr<QuotaHold> held = nullptr,
                   std::shared_ptr<RoomClaim> claimed = nullptr)
      : block(std::move(newcomer)), hold(std::move(held)), claim(std::move(claimed)) {}

  const Newcomer block;
  const std::shared_ptr<QuotaHold> hold;   ///< Null: nothing of the quota is held.
  const std::shared_ptr<RoomClaim> claim;  ///< Null: it takes what is free.
  /// Whoever waited goes on by now, and may have stored the block elsewhere.
  std::atomic<bool> given_up{false};

 private:
  friend class Arrivals;  // guarded by its mutex
  bool taken_ = false;
  std::optional<Status> landed_;
};

/// The blocks that wait for a thread of their disk. Whoever gets one takes along what waits beside
/// it, so that small blocks share the calls that write them and their commit. Thread-safe; Take may
/// block.
class Arrivals {
 public:
  using Batch = std::vector<std::shared_ptr<Arrival>>;

  void Enter(std::shared_ptr<Arrival> arrival);
  /// Nobody waits for it any more: it is not written, unless that has begun.
  void GiveUp(Arrival& arrival);

  /// What the caller writes now, the oldest first; it calls Land with it. Waits while another
  /// thread writes `own`; empty when that has landed, or was given up.
  Batch Take(const Arrival& own);
  /// `answers`: one for each of the batch.
  void Land(const Batch& batch, std::vector<Status> answers);
  /// Of one that has landed, once.
  Status AnswerOf(Arrival& own);

 private:
  /// Small blocks: 32 records share two calls. Larger ones are better written side by side.
  static constexpr std::size_t kAtOnce = 32;
  static constexpr std::uint64_t kBytesAtOnce = 1ULL << 20;

  std::mutex mutex_;
  std::condition_variable landed_;
  std::deque<std::shared_ptr<Arrival>> waiting_;
};

}  // namespace forebay
