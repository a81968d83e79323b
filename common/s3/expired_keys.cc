#include "common/s3/expired_keys.h"

#include <utility>

namespace forebay {

void ExpiredKeys::Note(const LinkOrigin& origin, CredentialCache::Ptr keys) {
  std::scoped_lock lock(mutex_);
  entries_[PlaceOf(origin)] = {.keys = std::move(keys), .ask_at = Clock::now() + ask_every_};
}

bool ExpiredKeys::Holds(const LinkOrigin& origin, const S3Credentials& keys) {
  std::scoped_lock lock(mutex_);
  if (entries_.empty()) return false;
  const auto entry = entries_.find(PlaceOf(origin));
  if (entry == entries_.end() || !entry->second.keys->SameKeys(keys)) return false;
  const TimePoint now = Clock::now();
  if (now < entry->second.ask_at) return true;
  entry->second.ask_at = now + ask_every_;
  return false;
}

void ExpiredKeys::Forget(const LinkOrigin& origin) {
  std::scoped_lock lock(mutex_);
  entries_.erase(PlaceOf(origin));
}

}  // namespace forebay
