#include "cachenode/unserved_links.h"

#include <utility>

namespace forebay {

bool UnservedLinks::NoteUnanswered(const Uuid& link, bool late) {
  const std::scoped_lock lock(mutex_);
  any_.store(true, std::memory_order_relaxed);
  State& state = links_[link];
  ++state.unanswered;
  if (late || state.unanswered > 1 || state.is_on_trial) Lose(state);
  return state.unserved;
}

void UnservedLinks::Lose(State& state) {
  if (std::exchange(state.is_on_trial, false) && state.wrong_looks < kMostDoublings)
    ++state.wrong_looks;
  state.unserved = true;
}

void UnservedLinks::NoteRefused(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  any_.store(true, std::memory_order_relaxed);
  Lose(links_[link]);
}

void UnservedLinks::NoteAnswered(const Uuid& link) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  if (state != links_.end()) state->second.unanswered = 0;
}

void UnservedLinks::NoteServed(const Uuid& link) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  if (state == links_.end()) return;
  // Whoever looks finds out by itself, and forgets it.
  const bool is_watched = state->second.is_watched;
  state->second = State();
  state->second.is_watched = is_watched;
  if (!is_watched) Forget(state);
}

void UnservedLinks::NoteSeen(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  if (state == links_.end() || !state->second.unserved) return;
  state->second.unserved = false;
  state->second.unanswered = 0;
  state->second.is_on_trial = true;
}

void UnservedLinks::Forget(std::map<Uuid, State>::iterator state) {
  links_.erase(state);
  any_.store(!links_.empty(), std::memory_order_relaxed);
}

Duration UnservedLinks::PauseBefore(const Uuid& link, Duration shortest) const {
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  return state == links_.end() ? shortest : shortest * (1 << state->second.wrong_looks);
}

bool UnservedLinks::Holds(const Uuid& link) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  return state != links_.end() && state->second.unserved;
}

bool UnservedLinks::Want(Wanted wanted, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  any_.store(true, std::memory_order_relaxed);
  State& state = links_[wanted.link->id];
  state.wanted = std::move(wanted);
  state.wanted_at = now;
  return !std::exchange(state.is_watched, true);
}

std::optional<UnservedLinks::Wanted> UnservedLinks::NextLook(const Uuid& link, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto state = links_.find(link);
  if (state == links_.end()) return std::nullopt;
  if (state->second.unserved && now - state->second.wanted_at <= kKept) return state->second.wanted;
  state->second.is_watched = false;
  // On trial it is not forgotten: the next fill decides.
  if (!state->second.is_on_trial) Forget(state);
  return std::nullopt;
}

}  // namespace forebay
