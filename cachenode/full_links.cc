#include "cachenode/full_links.h"

#include <algorithm>

namespace forebay {

void FullLinks::NoteRefused(const Uuid& link, std::uint32_t length, std::uint64_t room,
                            TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto entry = refused_.try_emplace(link, Refusal{length, room, now + kProbeEvery}).first;
  // An answer from before room was made says nothing about what is refused since.
  if (room < entry->second.room) return;
  if (room > entry->second.room) entry->second = Refusal{length, room, {}};
  entry->second.length = std::min(entry->second.length, length);
  entry->second.probe_at = now + kProbeEvery;
}

void FullLinks::NoteKept(const Uuid& link, std::uint32_t length) {
  const std::scoped_lock lock(mutex_);
  const auto entry = refused_.find(link);
  if (entry != refused_.end() && length >= entry->second.length) refused_.erase(entry);
}

void FullLinks::Forget(const Uuid& link) {
  const std::scoped_lock lock(mutex_);
  refused_.erase(link);
}

bool FullLinks::MayHaveRoom(const Uuid& link, std::uint32_t length, std::uint64_t room,
                            TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto entry = refused_.find(link);
  if (entry == refused_.end() || length < entry->second.length) return true;
  if (room > entry->second.room) {
    refused_.erase(entry);
    return true;
  }
  if (now < entry->second.probe_at) return false;
  entry->second.probe_at = now + kProbeEvery;
  return true;
}

}  // namespace forebay
