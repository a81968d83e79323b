#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cachenode/fill_slots.h"
#include "cachenode/peer_sink.h"
#include "cachenode/spare_room.h"
#include "common/base/buffer.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/fill_outcome.h"
#include "common/s3/object_store.h"

namespace forebay {

/// One block on its way from S3 or from another node, and those who wait for it. A reader gets its
/// answer as soon as its cells are there, and never ends the fill for the others by giving up. Each
/// attempt has a buffer of its own: bytes that were handed out are never written again.
/// Thread-safe: the object store's thread delivers, any executor waits.
class Fill final : public PeerSink {
 public:
  explicit Fill(BlockId block, Urgency urgency = Urgency::kReader)
      : block_(block), turn_(std::make_shared<FillSlots::Turn>(urgency)) {}

  const BlockId& block() const { return block_; }
  /// Readers and batches that want the block: a fill in the background that none wants any more is
  /// not begun. False: it was given up a moment ago, and another one must take its place.
  bool AddWish();
  /// True: it was the last one.
  bool DropWish() { return wishes_.fetch_sub(1, std::memory_order_relaxed) == 1; }
  /// True when nobody wants it, and then nobody can want it any more.
  bool GiveUp();

  /// Its place among the fills that wait for S3.
  const std::shared_ptr<FillSlots::Turn>& turn() const { return turn_; }
  /// The memory that this fill may use; given back when the fill and all its answers are gone.
  void Hold(MemoryBudget::Reservation memory);
  /// Room in the store that the fill is about to take; from the coroutine that runs the fill.
  void HoldSpareRoom(SpareRoom::Hold hold) { spare_room_ = std::move(hold); }
  void ReturnSpareRoom() { spare_room_ = {}; }
  /// What came so far counts as nothing, and its memory is given back.
  void StartOver();

  void MarkGet() override;
  /// From now on this node asks S3, and no other node. Until then none may wait for this fill, not
  /// even when another one has promised a GET: where that one dies, this fill looks elsewhere, and
  /// nodes that look for the same block would wait for each other (the simulated cluster had rings
  /// of them).
  void MarkOwnGet();
  bool asks_s3() const;
  /// Bytes of it have come from another node's cache, and cost no GET.
  bool is_from_peer() const;

  void OnAttempt() override;
  void HoldBack() override;
  void OnData(ByteView bytes) override;
  /// How a GET that answered `status` has gone: kCorrupt in place of success unless every byte has
  /// come.
  Status Verdict(Status status) const;
  /// Before a Finish with an error, when nothing was fetched: how the fill has landed then for
  /// those in WaitLanded. (kNoRoom: the store is known to have no room.)
  void LandsAs(Result<FillOutcome> outcome);
  /// The end: wakes all who wait; they get the verdict, which is returned.
  Status Finish(Status status);
  /// After Finish, when the store has taken the block or not: wakes those in WaitLanded.
  void Land(Result<FillOutcome> outcome);

  /// The cells that enclose `range`, as tier kS3 or kPeer; the fill's error when it failed;
  /// kTimeout at the deadline.
  Task<Result<Cells>> Wait(BlockRange range, Deadline deadline);
  /// kFilled, or kKept when it came from another node: the store has it; kNoRoom: it has no room
  /// for it; the fill's error when it failed; kUnavailable: another node keeps it; kTimeout at the
  /// deadline.
  Task<Result<FillOutcome>> WaitLanded(Deadline deadline);
  /// The same as Wait without waiting: nothing when the cells are not there yet.
  std::optional<Result<Cells>> TryRead(BlockRange range) const;

  /// After a successful Finish: the whole block and its checksums.
  Slice Data() const;
  std::vector<std::uint64_t> Checksums() const;

 private:
  struct Memory {
    MemoryBudget::Reservation reservation;
    Buffer bytes;
  };

  const BlockId block_;
  const std::shared_ptr<FillSlots::Turn> turn_;
  static constexpr int kGivenUp = -1;
  std::atomic<int> wishes_{0};
  SpareRoom::Hold spare_room_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  MemoryBudget::Reservation unused_memory_;
  std::shared_ptr<Memory> memory_;        // of the current attempt
  std::uint32_t received_ = 0;            // bytes of the current attempt
  std::vector<std::uint64_t> checksums_;  // of its whole cells
  bool held_back_ = false;                // until the end
  bool costs_get_ = false;
  bool asks_s3_ = false;
  std::optional<Result<FillOutcome>> lands_as_;
  std::optional<Status> ended_;
  std::optional<Result<FillOutcome>> landed_;
  Notifier progress_;
};

}  // namespace forebay
