#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "common/base/deadline.h"
#include "common/model/link.h"
#include "common/s3/credential_cache.h"
#include "common/s3/credentials.h"

namespace forebay {

/// Keys that S3 called expired. All calls that wait for newer ones together ask it with them again
/// once in `ask_every`, and not each for itself. Thread-safe.
class ExpiredKeys {
 public:
  explicit ExpiredKeys(Duration ask_every) : ask_every_(ask_every) {}

  /// S3 has just called `keys` expired.
  void Note(const LinkOrigin& origin, CredentialCache::Ptr keys);
  /// Whether S3 said so of `keys` and is not to be asked yet. The one who gets false asks: the
  /// others are held for `ask_every` from then.
  bool Holds(const LinkOrigin& origin, const S3Credentials& keys);
  /// S3 has answered something else.
  void Forget(const LinkOrigin& origin);

 private:
  using Place = std::tuple<std::string, std::string, std::string>;  // endpoint, bucket, profile
  struct Entry {
    CredentialCache::Ptr keys;
    TimePoint ask_at;
  };
  static Place PlaceOf(const LinkOrigin& origin) {
    return {origin.endpoint, origin.bucket, origin.profile};
  }

  const Duration ask_every_;
  std::mutex mutex_;
  std::map<Place, Entry> entries_;  // as many as there are linked buckets
};

}  // namespace forebay
