#include "cachenode/store/replacement_trials.h"

#include <algorithm>
#include <cmath>

#include "cachenode/store/block_hash.h"

namespace forebay {
namespace {

/// Trials that a record remembers: what a job did long ago is worth less.
constexpr double kRemembered = 512;
/// The least surplus of trials that were won, as a part of those that were lost …
constexpr double kLeastGain = 0.2;
/// … and in standard deviations of a fair coin.
constexpr double kDeviations = 3;
/// Replacements that a single job may cause for each miss, and how many it may save up: it gains
/// little by more, and each is written to the disk.
constexpr double kPerMiss = 0.49;
constexpr double kMostSaved = 16;

}  // namespace

void ReplacementTrials::Watch(const Uuid& link, const BlockId& newcomer, const BlockId& victim,
                              std::uint64_t patience) {
  const std::uint64_t now = reads_.load(std::memory_order_relaxed);
  const std::uint64_t in = MixedHash(newcomer);
  const std::uint64_t out = MixedHash(victim);
  const std::scoped_lock lock(mutex_);
  if (RecordOf(link) == nullptr) return;
  const auto free =
      std::ranges::find_if(trials_, [now](const Trial& trial) { return trial.ends <= now; });
  if (free == trials_.end()) return;
  End(*free);
  // One read must not decide several trials: among few blocks chance would look like proof.
  if (Watched(in) != 0 || Watched(out) != 0) return;
  *free = {.newcomer = in, .victim = out, .ends = now + patience, .link = link};
  ++Watched(free->newcomer);
  ++Watched(free->victim);
}

/// Null: there are too many. Under the mutex.
ReplacementTrials::Record* ReplacementTrials::RecordOf(const Uuid& link) {
  const auto found = records_.find(link);
  if (found != records_.end()) return &found->second;
  return records_.size() == kMaxLinks ? nullptr : &records_[link];
}

void ReplacementTrials::NoteMiss(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  Record* record = RecordOf(link);
  if (record != nullptr) record->budget = std::min(record->budget + kPerMiss, kMostSaved);
}

bool ReplacementTrials::Spend(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  Record* record = RecordOf(link);
  if (record == nullptr || record->budget < 1) return false;
  record->budget -= 1;
  return true;
}

void ReplacementTrials::End(Trial& trial) {
  if (trial.ends == 0) return;
  --Watched(trial.newcomer);
  --Watched(trial.victim);
  trial = Trial();
}

void ReplacementTrials::NoteRead(const BlockId& block, bool counts) {
  if (counts) reads_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t hash = MixedHash(block);
  if (Watched(hash).load(std::memory_order_relaxed) == 0) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Trial& trial : trials_) {
    const bool won = trial.newcomer == hash;
    if (trial.ends == 0 || (!won && trial.victim != hash)) continue;
    if (won && !counts) continue;
    Record& record = records_[trial.link];
    if (record.won + record.lost >= kRemembered) {
      record.won /= 2;
      record.lost /= 2;
    }
    (won ? record.won : record.lost) += 1;
    End(trial);
  }
}

bool ReplacementTrials::Pays(const Uuid& link) const {
  const std::scoped_lock lock(mutex_);
  const auto found = records_.find(link);
  if (found == records_.end()) return false;
  const Record& record = found->second;
  const double chance = kDeviations * std::sqrt(record.won + record.lost);
  return record.won > record.lost * (1 + kLeastGain) + chance;
}

}  // namespace forebay
