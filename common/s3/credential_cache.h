#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/s3/credentials.h"

namespace forebay {

/// The credentials in use, by profile, in front of a chain that may block: a thread of its own asks
/// the chain. Credentials older than `recheck_every` are given out and looked at again behind the
/// caller's back, which picks up a changed file; those in use stay when the new look finds none,
/// until S3 refuses them. Start, then Stop when no call runs any more. Calls may come from any
/// executor and resume on it.
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

  /// The chain's errors; kUnavailable when the chain does not answer in time.
  Task<Result<Ptr>> Get(std::string profile, Deadline deadline);

  /// After S3 refused `used`: what others have found since, or what a new look finds. It may be the
  /// same keys again.
  Task<Result<Ptr>> Newer(std::string profile, Ptr used, Deadline deadline);

 private:
  // Looks at the chain are numbered: `wanted` >= `begun` >= `finished`.
  struct Entry {
    Ptr good;
    Error error;  // of the last look, when `good` is null or refused
    bool failed = false;
    TimePoint looked_at;
    std::uint64_t wanted = 0;
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
  };

  void Loop();
  // The number of a look that begins after this call. The lock is held.
  std::uint64_t WantLook(Entry& entry);
  // The answer once look number `look` is finished. Takes the lock.
  std::optional<Result<Ptr>> AnswerOf(const std::string& profile, std::uint64_t look,
                                      bool keep_good);
  Task<Result<Ptr>> AwaitLook(std::string profile, std::uint64_t look, bool keep_good,
                              Deadline deadline);

  CredentialChain chain_;  // used on the thread alone
  const Duration recheck_every_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool stopping_ = false;
  std::map<std::string, Entry, std::less<>> entries_;  // profiles that links name: few
  Notifier finished_;
  std::thread thread_;
};

}  // namespace forebay
