#include "cachenode/batch_filler.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace forebay {

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
                                                          bool verify, Deadline deadline) {
  std::vector<std::optional<Outcome>> outcomes(blocks.size());
  std::vector<Filler::Seat> seats(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Result<bool> kept = co_await IsKept(blocks[i], verify);
    if (!kept) {
      outcomes[i] = Fail(kept.error());
    } else if (*kept) {
      outcomes[i] = FillOutcome::kKept;
    } else {
      blocks[i].background = true;
      seats[i] = filler_.JoinOrStart(blocks[i], true);
      // It is in memory alone, since the store had no room: it may have some now.
      const bool not_kept = !seats[i].fill && !store_.Contains(blocks[i].block);
      if (not_kept) seats[i] = filler_.JoinOrStart(blocks[i], false);
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
    answers.push_back(std::move(outcome));
  }
  co_return answers;
}

}  // namespace forebay
