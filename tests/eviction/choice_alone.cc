#include "tests/eviction/choice_alone.h"

#include <optional>
#include <string>

#include "tests/eviction/trace_blocks.h"

namespace forebay::testing {
namespace {

/// SegmentStore gives up when so many are not enough.
constexpr std::size_t kRoomAttempts = 16;

}  // namespace

ChoiceAlone::Answer ChoiceAlone::Read(const BlockRead& read, const BlockId& block,
                                      const HasRoom& has_room) {
  choice_.NoteRead(LinkIdOf(read.link), std::to_string(read.job), block);
  if (index_.Find(block) || not_kept_.contains(block)) return {.hit = true};
  const bool kept = Admit(read, block, has_room);
  if (!kept) not_kept_.insert(block);
  return {.admitted = kept};
}

bool ChoiceAlone::Admit(const BlockRead& read, const BlockId& block, const HasRoom& has_room) {
  const auto draw = [this](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
    const std::optional<BlockIndex::Found> found = index_.Pick(random);
    if (!found) return std::nullopt;
    return VictimChoice::Drawn{*found, LinkIdOf(found->place.segment)};
  };
  for (std::size_t gone = 0;; ++gone) {
    if (has_room(gone)) {
      index_.Insert(block, {.segment = read.link}, 0);
      history_.SetCached(block, true);
      return true;
    }
    if (gone == kRoomAttempts) return false;
    const auto victim = choice_.Choose(LinkIdOf(read.link), block, draw);
    if (!victim) return false;
    index_.BeginRemove(victim->block);
    index_.FinishRemove(victim->handle);
    history_.SetCached(victim->block, false);
  }
}

}  // namespace forebay::testing
