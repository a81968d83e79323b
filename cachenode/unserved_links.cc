#include "cachenode/unserved_links.h"

#include <string>
#include <utility>

namespace forebay {
namespace {

std::string Describe(RetryReason why) {
  switch (why) {
    case RetryReason::kDns:
      return "the name of the endpoint is not found";
    case RetryReason::kNetwork:
      return "connections to it break";
    case RetryReason::kCredentials:
      return "no keys can be had";
    default:
      return "what it is asked for does not come, or not to its end; where it answers a HEAD, look "
             "for a firewall or an MTU that loses large packets";
  }
}

}  // namespace

bool UnservedLinks::NoteUnanswered(const Uuid& link, RetryReason why, bool late, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  any_.store(true, std::memory_order_relaxed);
  State& state = links_[link];
  ++state.unanswered;
  if (late || state.unanswered > 1 || state.is_on_trial) Lose(state);
  // A trial that nobody was there for says nothing of the time between.
  const bool begins = state.unanswered_since == TimePoint() || now - state.wanted_at > kKept;
  if (state.unserved && begins) state.unanswered_since = now;
  state.why = why;
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
  State& state = links_[link];
  Lose(state);
  state.unanswered_since = TimePoint();
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

std::vector<UnansweredPlace> UnservedLinks::Waits(TimePoint now) const {
  std::vector<UnansweredPlace> waits;
  if (!any_.load(std::memory_order_relaxed)) return waits;
  const std::scoped_lock lock(mutex_);
  for (const auto& [link, state] : links_) {
    // One look that was right ends it, until a fill has shown that looks are wrong.
    const bool stands = state.unserved || (state.is_on_trial && state.wrong_looks > 0);
    const bool is_wanted = state.wanted.link && now - state.wanted_at <= kKept;
    if (!stands || !is_wanted || state.unanswered_since == TimePoint()) continue;
    const LinkOrigin& origin = state.wanted.link->origin;
    waits.push_back({.endpoint = origin.endpoint,
                     .bucket = origin.bucket,
                     .prefix = origin.prefix,
                     .longest = now - state.unanswered_since,
                     .calls = 1,
                     .why = Describe(state.why)});
  }
  return waits;
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
