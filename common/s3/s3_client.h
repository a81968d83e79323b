#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/base/notifier.h"
#include "common/s3/credential_cache.h"
#include "common/s3/curl_engine.h"
#include "common/s3/expired_keys.h"
#include "common/s3/object_store.h"
#include "common/s3/profile_bundles.h"
#include "common/s3/request_governor.h"
#include "common/s3/retry.h"
#include "common/s3/s3_failure.h"

namespace forebay {

struct S3Options {
  /// Connections to S3 and timeouts of one attempt.
  CurlOptions http;

  /// Waits between the attempts of one call.
  RetryTiming retry;

  /// How old credentials may get before their source is looked at again. Files are small and local:
  /// ten seconds bound how long a rotated key is missed and cost nothing.
  Duration credentials_recheck = std::chrono::seconds(10);

  /// Which file of certificates vouches for links of a profile (CaBundleOf). Null: http.ca_bundle
  /// for all.
  ProfileBundles::Look ca_bundle_of = nullptr;

  /// Of LISTs and HEADs. Null: nobody bounds them. Must outlive the client's calls.
  RequestGovernor* governor = nullptr;
};

/// Bodies of whole objects, compared with the checksum that S3 has of what was uploaded.
struct ChecksumCounters {
  std::atomic<std::uint64_t> matched{0};
  std::atomic<std::uint64_t> differed{0};
};

/// What the client has done since it began. Calls count once, when they end; retries apart.
struct S3Counters {
  std::array<std::atomic<std::uint64_t>, kS3Operations> succeeded{};
  std::atomic<std::uint64_t> get_bytes{0};  ///< Of successful GETs.
  std::array<std::atomic<std::uint64_t>, kRetryReasons> retries{};
  ChecksumCounters checksums;
  /// By operation, then code - 1 (Code begins with 1).
  std::array<std::array<std::atomic<std::uint64_t>, 9>, kS3Operations> failed{};
};

/// S3 over libcurl. Bodies go to their sinks on the client's own thread, and only after the
/// answer's headers have been checked. Calls may come from any executor; one that is cancelled or
/// whose frame is destroyed leaves its sink alone from then on. Stop() ends every call with
/// kUnavailable; the client must outlive the calls.
class S3Client final : public ObjectStore {
 public:
  S3Client(S3Options options, CredentialChain chain);
  ~S3Client() override;  ///< Calls Stop().
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  void Start();
  void Stop();  ///< Idempotent.

  /// Looks at the credentials anew, whatever their age (SIGHUP).
  void ReloadCredentials() { credentials_.Reload(); }

  Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) override;
  Task<Result<ListPage>> List(ListRequest request, Deadline deadline) override;
  Task<Result<VersionPage>> ListVersions(VersionsRequest request, Deadline deadline) override;
  Task<Result<ObjectHead>> Head(HeadRequest request, Deadline deadline) override;

  std::vector<UnansweredPlace> Waits(std::size_t most) const override {
    return waits_.All(Clock::now(), most);
  }

  const S3Counters& counters() const { return counters_; }

 private:
  struct Call;
  class Attempt;

  // All attempts of one call.
  Task<Status> Run(Call& call, Deadline deadline);
  // Waits until whoever bounds the requests lets the next attempt go.
  Task<Status> MayAsk(Call& call, Deadline deadline);
  // The next attempt, or what stands for it: see call.failure.
  Task<Status> Ask(Call& call, Deadline deadline);
  // One attempt. Nothing when it brought the answer, which call.reader then holds.
  Task<std::optional<Failure>> TryOnce(Call& call, Deadline deadline);
  // Fills in call.credentials, as soon as there are some.
  Task<Status> FindCredentials(Call& call, Deadline deadline);
  // Fills in call.ca_bundle, of a link with a profile.
  Task<Status> FindBundle(Call& call, Deadline deadline);
  // kUnavailable when the client stops meanwhile, kTimeout when the call was cancelled.
  Task<Status> WaitFor(Call& call, Duration wait);
  // After S3 refused the keys: an error when there are no others.
  Task<Status> UseNewerCredentials(Call& call, Deadline deadline);

  // After S3 called the keys expired: waits, and takes newer ones where there are any.
  Task<Status> AwaitNewerCredentials(Call& call, Duration wait, Deadline deadline);

  void NoteWaiting(Call& call, RetryReason reason, const std::string& why);
  Task<bool> IsOver(Call& call, RetryReason reason);
  void CountEnd(S3Operation operation, const Status& status);
  RetryTokens& TokensOf(const LinkOrigin& origin);

  const S3Options options_;
  CredentialCache credentials_;
  ExpiredKeys expired_;
  ProfileBundles bundles_;
  CurlEngine engine_;
  S3Counters counters_;
  S3Waits waits_;
  std::atomic<bool> stopping_{false};
  Notifier stopped_;
  std::mutex tokens_mutex_;
  // By endpoint and bucket: as many as there are linked buckets.
  std::map<std::pair<std::string, std::string>, RetryTokens> tokens_;
};

}  // namespace forebay
