#include "cachenode/batch_filler.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace forebay {

/// What a batch still waits for. Nothing when its call ends: also when the caller goes away and the
/// coroutine is dropped at a wait. A fill that has landed is let go at once, with its memory.
class BatchFiller::Wishes {
 public:
  Wishes(Filler& filler, std::size_t blocks) : filler_(filler), fills_(blocks) {}
  Wishes(const Wishes&) = delete;
  Wishes& operator=(const Wishes&) = delete;
  ~Wishes() {
    for (std::size_t i = 0; i < fills_.size(); ++i) End(i);
  }

  Filler::Seat Take(std::size_t i, const ColdBlock& cold, bool unless_kept) {
    Filler::Seat seat = filler_.JoinOrStart(cold, unless_kept);
    fills_[i] = seat.fill;
    link_ = cold.link->id;
    return seat;
  }
  void End(std::size_t i) {
    if (const std::shared_ptr<forebay::Fill> fill = std::exchange(fills_[i], nullptr))
      filler_.Unwish(link_, fill);
  }

 private:
  Filler& filler_;
  Uuid link_;  // a batch is of one
  std::vector<std::shared_ptr<forebay::Fill>> fills_;
};

Task<Result<bool>> BatchFiller::IsKept(ColdBlock cold, bool verify) {
  if (!store_.Contains(cold.block)) co_return false;
  if (!verify) co_return true;
  const Result<Cells> cells = co_await store_.Read(cold.block, {0, cold.block.length});
  if (cells) co_return true;
  if (cells.error().code == Code::kNotFound) co_return false;
  co_return Fail(cells.error());
}

Task<BatchFiller::Outcome> BatchFiller::Join(Filler::Seat seat, ColdBlock cold, Deadline deadline) {
  FillOutcome kept = FillOutcome::kKept;  // no seat: it has landed since we looked
  if (seat.fill) {
    const Outcome landed = co_await seat.fill->WaitLanded(deadline);
    if (!landed) co_return landed;
    kept = *landed;
  }
  co_return store_.Contains(cold.block) ? kept : FillOutcome::kNoRoom;
}

Task<std::vector<BatchFiller::Outcome>> BatchFiller::Fill(std::vector<ColdBlock> blocks,
                                                          BatchWay way, Deadline deadline) {
  std::vector<std::optional<Outcome>> outcomes(blocks.size());
  std::vector<Filler::Seat> seats(blocks.size());
  Wishes wishes(filler_, blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Result<bool> kept = co_await IsKept(blocks[i], way.verify);
    if (!kept) {
      outcomes[i] = Fail(kept.error());
    } else if (*kept) {
      outcomes[i] = FillOutcome::kKept;
    } else {
      // Before the fill begins: a reader who wants the block meanwhile begins one that waits not.
      if (way.pace != nullptr) {
        if (deadline.Expired()) {
          outcomes[i] = Fail(Code::kTimeout, "its turn did not come in time");
          continue;
        }
        co_await way.pace->Pass(blocks[i].block.length);
      }
      blocks[i].urgency = way.urgency;
      blocks[i].peers_only = way.peers_only;
      blocks[i].copy = way.copy;
      seats[i] = wishes.Take(i, blocks[i], true);
      // It is in memory alone, since the store had no room: it may have some now.
      const bool not_kept = !seats[i].fill && !store_.Contains(blocks[i].block);
      if (not_kept) seats[i] = wishes.Take(i, blocks[i], false);
    }
  }
  std::vector<Outcome> answers;
  answers.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (outcomes[i]) {
      answers.push_back(std::move(*outcomes[i]));
      continue;
    }
    Outcome outcome = co_await Join(std::move(seats[i]), blocks[i], deadline);
    wishes.End(i);
    answers.push_back(std::move(outcome));
  }
  co_return answers;
}

}  // namespace forebay
