#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/s3/credentials.h"

namespace forebay {

/// The credentials in use, by profile, in front of a chain that may block: threads of its own ask
/// the chain, one look at a time for each profile. Start, then Stop when no call runs any more.
/// Calls may come from any executor and resume on it.
///
/// Every `recheck_every` at most, behind the caller's back: keys that cost nothing to read are read
/// again; others when their files have changed, or when the last quarter of their life, at most
/// five minutes, has begun. Those in use stay when a look finds none, until they expire or S3
/// refuses them; then callers wait.
class CredentialCache {
 public:
  using Ptr = std::shared_ptr<const S3Credentials>;

  CredentialCache(CredentialChain chain, Duration recheck_every)
      : chain_(std::move(chain)), recheck_every_(recheck_every) {}
  ~CredentialCache() { Stop(); }
  CredentialCache(const CredentialCache&) = delete;
  CredentialCache& operator=(const CredentialCache&) = delete;

  void Start();
  /// Waiting calls answer kUnavailable. Idempotent.
  void Stop();

  /// Begins a new look at each profile in use: somebody says that they have changed.
  void Reload();

  /// The chain's errors; kUnavailable when the chain does not answer in time, and when it gives
  /// nothing, for whatever reason, in the place of keys that have expired.
  Task<Result<Ptr>> Get(std::string profile, Deadline deadline);

  /// After S3 refused `used`: what others have found since, or what a new look finds. It may be the
  /// same keys again, without a look where one within `recheck_every` has asked somebody for them.
  Task<Result<Ptr>> Newer(std::string profile, Ptr used, Deadline deadline);

 private:
  // Looks at the chain are numbered: `wanted` >= `begun` >= `finished`.
  struct Entry {
    Ptr good;
    std::chrono::system_clock::time_point renew_at;  // of `good`, where it expires
    std::string stamp;                               // of the files, when `good` was read
    Error error;  // of the last look, when `good` is null or refused
    bool failed = false;
    bool forced = false;   // the look that is wanted must ask, whatever the files say
    bool running = false;  // a thread has begun a look and not finished it
    TimePoint looked_at;   // whether something has changed
    TimePoint loaded_at;   // when the chain last gave something
    std::uint64_t wanted = 0;
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
  };

  // The body of each thread.
  void Loop();
  // One look; the lock is held at its beginning and end, and not while the chain is asked.
  void Look(const std::string& profile, std::unique_lock<std::mutex>& lock);
  static void Keep(Entry& entry, Result<S3Credentials> loaded, const std::string& profile);
  // The number of a look that begins after this call. The lock is held.
  std::uint64_t WantLook(Entry& entry, bool forced);
  // The answer once look number `look` is finished. Takes the lock.
  std::optional<Result<Ptr>> AnswerOf(const std::string& profile, std::uint64_t look);
  Task<Result<Ptr>> AwaitLook(std::string profile, std::uint64_t look, Deadline deadline);

  const CredentialChain chain_;
  const Duration recheck_every_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::stop_source stopping_;
  std::map<std::string, Entry, std::less<>> entries_;  // profiles that links name: few
  Notifier finished_;
  std::vector<std::thread> threads_;
};

}  // namespace forebay
