#include "cachenode/store/victim_choice.h"

namespace forebay {
namespace {

// All three by tests/bench/eviction_bench: more candidates gain nothing, and a smaller margin gains
// 0.003 of the hits for a third more rewrites, and loses with one job and a validation set.
constexpr int kCandidates = 32;
constexpr double kMarginOfWorth = 1.1;
constexpr double kMarginOfMean = 0.35;

/// A trial ends without a result after so many reads for each remembered block.
constexpr std::uint64_t kPatience = 4;

/// Places that are drawn at most for one candidate.
constexpr int kDraws = 4;

}  // namespace

/// splitmix64: the draws of a run follow from their number.
std::uint64_t VictimChoice::Random() {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = seed_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

ReadHistory::Noted VictimChoice::NoteRead(const Uuid& link, std::string_view job,
                                          const BlockId& block) {
  const auto noted = history_.NoteRead(link, job, block, index_.Find(block).has_value());
  trials_.NoteRead(block, noted == ReadHistory::Noted::kCounts);
  return noted;
}

std::optional<BlockIndex::Found> VictimChoice::Choose(const Uuid& link, const BlockId& newcomer,
                                                      const Draw& draw) {
  const ReadHistory::Value wanted = history_.ValueOf(link, newcomer);
  if (!wanted.just_read || wanted.worth <= 0) return std::nullopt;
  trials_.NoteMiss(link);
  std::optional<BlockIndex::Found> victim;
  double least = 0;
  int candidates = 0;
  for (int draws = 0; draws < kCandidates * kDraws && candidates < kCandidates; ++draws) {
    const std::optional<Drawn> drawn = draw(Random());
    if (!drawn) continue;
    const ReadHistory::Value value = history_.ValueOf(drawn->link, drawn->found.block);
    if (!value.has_jobs) continue;
    ++candidates;
    if (victim && value.worth >= least) continue;
    victim = drawn->found;
    least = value.worth;
  }
  if (!victim) return std::nullopt;
  if (least <= 0) return victim;
  if (wanted.worth <= least * kMarginOfWorth + wanted.mean * kMarginOfMean) return std::nullopt;
  trials_.Watch(link, newcomer, victim->block, kPatience * history_.size());
  if (!trials_.Pays(link) || (wanted.readers == 1 && !trials_.Spend(link))) return std::nullopt;
  return victim;
}

}  // namespace forebay
