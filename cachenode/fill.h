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

/// How a fill has ended, for those who wait for that alone: they hold nothing of its memory, which
/// others may wait for. Thread-safe.
class FillLanding {
 public:
  explicit FillLanding(const BlockId& block) : block_(block) {}

  void Set(Result<FillOutcome> outcome);
  /// kFilled: the store has it; kKept: it came from another node, and the store has it, too, where
  /// it has room; kNoRoom: it has none for what came from S3; the fill's error when it failed;
  /// kUnavailable: another node keeps it; kTimeout at the deadline.
  static Task<Result<FillOutcome>> Wait(std::shared_ptr<FillLanding> landing, Deadline deadline);

 private:
  const BlockId block_;
  std::mutex mutex_;
  std::optional<Result<FillOutcome>> outcome_;
  Notifier landed_;
};

/// One block on its way from S3 or from another node, and those who wait for it. A reader gets its
/// answer as soon as its cells are there, and never ends the fill for the others by giving up.
///
/// A block comes in one part, from its front, or in several (fill_order.h) that its attempts bring
/// one after the other; each from the part's front. What holds for any order of parts:
///   1. Bytes that were handed out are never written again. A byte of a buffer is written once:
///      a part's second attempt has a new buffer, into which the cells of the other parts are
///      copied.
///   2. A cell is handed out when its last byte has come, with the checksum of that moment.
///   3. All parts are of the one version that the block is named by: each GET asks for it and
///      refuses any other. A part that failed ends the fill; what it brought is not kept.
///   4. The fill has succeeded when every cell is there, and then only.
/// Thread-safe: the object store's thread delivers, any executor waits.
class Fill final : public PeerSink {
 public:
  explicit Fill(BlockId block, Urgency urgency = Urgency::kReader)
      : block_(block),
        turn_(std::make_shared<FillSlots::Turn>(urgency)),
        landing_(std::make_shared<FillLanding>(block)),
        part_(Whole()),
        cells_(block.cells()),
        checksums_(block.cells()) {}

  const BlockId& block() const { return block_; }
  /// Readers and batches that want the block: a fill in the background that none wants any more is
  /// not begun. False: it was given up a moment ago, and another one must take its place.
  bool AddWish();
  /// True: it was the last one.
  bool DropWish() { return wishes_.fetch_sub(1, std::memory_order_relaxed) == 1; }
  /// True when nobody wants it, and then nobody can want it any more.
  bool GiveUp();

  /// Somebody at this node wants it, and not another node alone that has it fetched here.
  void MarkWantedHere() { wanted_here_.store(true, std::memory_order_relaxed); }
  bool is_wanted_here() const { return wanted_here_.load(std::memory_order_relaxed); }

  /// Somebody wants these cells first (FirstCells). Of several the foremost count, and what is
  /// asked for when the fill has begun changes nothing any more.
  void Want(BlockRange cells);
  /// The whole block where nobody has said.
  BlockRange first_cells() const;

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
  /// S3 does not serve this node, and others ask it instead: meanwhile nobody may wait for this
  /// fill, who might be one of them. Those from other nodes who do are sent away.
  void AskOthers(bool asks);
  bool asks_s3() const;
  /// Bytes of it have come from another node's cache, and cost no GET.
  bool is_from_peer() const;

  void BeginPart(BlockRange part) override;
  void OnAttempt() override;
  void HoldBack() override;
  void OnData(ByteView bytes) override;
  /// How a GET that answered `status` has gone: kCorrupt in place of success unless every byte has
  /// come.
  Status Verdict(Status status) const;
  /// Before a Finish with an error, when nothing was fetched: how the fill has landed then.
  /// (kNoRoom: the store is known to have no room.)
  void LandsAs(Result<FillOutcome> outcome);
  /// The end: wakes all who wait; they get the verdict, which is returned.
  Status Finish(Status status);
  /// After Finish, when the store has taken the block or not.
  void Land(Result<FillOutcome> outcome) { landing_->Set(std::move(outcome)); }
  /// When the fill has failed or landed.
  const std::shared_ptr<FillLanding>& landing() const { return landing_; }

  /// The cells that enclose `range`, as tier kS3 or kPeer; the fill's error when it failed;
  /// kTimeout at the deadline; to another node kOverloaded while this one does not ask S3 itself.
  Task<Result<Cells>> Wait(BlockRange range, Deadline deadline, bool for_node = false);
  /// The same as Wait without waiting: nothing when the cells are not there yet.
  std::optional<Result<Cells>> TryRead(BlockRange range) const;
  /// Whether, since it last said so, as many bytes were read as the block has: a reader of all of
  /// it has come to its end, most likely.
  bool TakeReadThrough() const;

  /// After a successful Finish: the whole block and its checksums.
  Slice Data() const;
  std::vector<std::uint64_t> Checksums() const;

 private:
  struct Memory {
    MemoryBudget::Reservation reservation;
    Buffer bytes;
  };
  /// In the buffer of now. A cell that has begun is there or never will be in this buffer, unless
  /// its attempt is still under way.
  enum class CellState : std::uint8_t { kUntouched, kBegun, kThere };

  BlockRange Whole() const { return {0, block_.length}; }
  bool IsWhole() const;
  void TakeFreshBuffer();

  const BlockId block_;
  const std::shared_ptr<FillSlots::Turn> turn_;
  const std::shared_ptr<FillLanding> landing_;
  static constexpr int kGivenUp = -1;
  std::atomic<int> wishes_{0};
  std::atomic<bool> wanted_here_{false};
  SpareRoom::Hold spare_room_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  MemoryBudget::Reservation unused_memory_;
  std::optional<BlockRange> first_cells_;
  std::shared_ptr<Memory> memory_;
  BlockRange part_;                       // that the current attempt brings
  std::uint32_t received_ = 0;            // bytes of the current attempt
  std::vector<CellState> cells_;          // of memory_
  std::vector<std::uint64_t> checksums_;  // of the cells that are there
  bool held_back_ = false;                // until the end
  mutable std::uint64_t read_bytes_ = 0;  // since the last that TakeReadThrough told
  bool costs_get_ = false;
  bool asks_s3_ = false;
  std::optional<Result<FillOutcome>> lands_as_;
  std::optional<Status> ended_;
  Notifier progress_;
};

}  // namespace forebay
