#include "cachenode/batch_filler.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace forebay {
namespace {

/// More than run at once.
constexpr std::size_t kRunsKnown = 256;

}  // namespace

/// What a batch still waits for. Nothing when its call ends: also when the caller goes away and the
/// coroutine is dropped at a wait. It holds no fill, since a fill holds memory: one that has landed
/// before others of the batch would keep theirs from them.
class BatchFiller::Wishes {
 public:
  Wishes(Filler& filler, std::size_t blocks) : filler_(filler), fills_(blocks) {}
  Wishes(const Wishes&) = delete;
  Wishes& operator=(const Wishes&) = delete;
  ~Wishes() {
    for (std::size_t i = 0; i < fills_.size(); ++i) End(i);
  }

  /// Null: the block has come into the store or `recent`.
  std::shared_ptr<FillLanding> Take(std::size_t i, const ColdBlock& cold, bool unless_kept) {
    const Filler::Seat seat = filler_.JoinOrStart(cold, unless_kept);
    fills_[i] = seat.fill;
    link_ = cold.link->id;
    return seat.fill ? seat.fill->landing() : nullptr;
  }
  void End(std::size_t i) {
    if (const std::shared_ptr<forebay::Fill> fill = std::exchange(fills_[i], {}).lock())
      filler_.Unwish(link_, fill);
  }

 private:
  Filler& filler_;
  Uuid link_;  // a batch is of one
  std::vector<std::weak_ptr<forebay::Fill>> fills_;
};

void BatchFiller::NoteRun(std::uint64_t run, const Uuid& link) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::ranges::find(runs_, run) != runs_.end()) return;
    runs_.push_back(run);
    if (runs_.size() > kRunsKnown) runs_.pop_front();
  }
  filler_.ForgetRefusals(link);
}

Task<Result<bool>> BatchFiller::IsKept(ColdBlock cold, bool verify) {
  if (!store_.Contains(cold.block)) co_return false;
  if (!verify) co_return true;
  const Result<Cells> cells = co_await store_.Read(cold.block, {0, cold.block.length});
  if (cells) co_return true;
  if (cells.error().code == Code::kNotFound) co_return false;
  co_return Fail(cells.error());
}

Task<BatchFiller::Outcome> BatchFiller::Join(std::shared_ptr<FillLanding> landing, ColdBlock cold,
                                             Deadline deadline) {
  FillOutcome kept = FillOutcome::kKept;  // null: it has landed since we looked
  bool elsewhere = false;
  if (landing) {
    const Outcome landed = co_await FillLanding::Wait(std::move(landing), deadline);
    if (!landed) co_return landed;
    kept = *landed;
    // Readers find it at the other node as well. Not so whoever moves or copies blocks.
    elsewhere = kept == FillOutcome::kKept && !cold.peers_only && !cold.copy;
  }
  co_return elsewhere || store_.Contains(cold.block) ? kept : FillOutcome::kNoRoom;
}

Task<std::vector<BatchFiller::Outcome>> BatchFiller::Fill(std::vector<ColdBlock> blocks,
                                                          BatchWay way, Deadline deadline) {
  std::vector<std::optional<Outcome>> outcomes(blocks.size());
  std::vector<std::shared_ptr<FillLanding>> landings(blocks.size());
  Wishes wishes(filler_, blocks.size());
  if (way.run != 0 && !blocks.empty()) NoteRun(way.run, blocks.front().link->id);
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
      landings[i] = wishes.Take(i, blocks[i], true);
      // It is in memory alone, since the store had no room: it may have some now.
      const bool not_kept = !landings[i] && !store_.Contains(blocks[i].block);
      if (not_kept) landings[i] = wishes.Take(i, blocks[i], false);
    }
  }
  std::vector<Outcome> answers;
  answers.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (outcomes[i]) {
      answers.push_back(std::move(*outcomes[i]));
      continue;
    }
    Outcome outcome = co_await Join(std::move(landings[i]), blocks[i], deadline);
    wishes.End(i);
    answers.push_back(std::move(outcome));
  }
  co_return answers;
}

}  // namespace forebay
