#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/notifier.h"
#include "common/s3/object_store.h"

namespace forebay::fakes {

/// How one GET goes.
struct GetScript {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  /// A first attempt that brings wrong bytes, so many of them, and breaks.
  std::uint64_t broken_attempt = 0;
  std::uint64_t hold_after = kNever;  ///< Waits for Release() once so many bytes have come.
  std::optional<Error> error = {};    ///< Ends with it, after the hold, in place of the rest.
  std::uint64_t unanswered = 0;       ///< Attempts before all this that fail.
  RetryReason why_unanswered = RetryReason::kNetwork;
};

/// An object store of objects of any size with SampleLink's bytes; each GET goes by the test's
/// script. Only GETs, lists of versions and, by a script, HEADs. Thread-safe.
class ScriptedObjectStore final : public ObjectStore {
 public:
  void OnGet(std::function<GetScript(const GetRequest&)> script);
  /// What LISTs of versions say; without it there are none.
  using Versions = std::function<Result<VersionPage>(const VersionsRequest&)>;
  void OnVersions(Versions versions);
  /// What HEADs say.
  void OnHead(std::function<Status()> script);
  /// All GETs that are held, and those that would be, go on.
  void Release();
  /// Held GETs end with kUnavailable, and so do all later ones until Resume().
  void Interrupt();
  void Resume();

  std::uint64_t gets() const { return gets_; }  ///< Begun.
  std::uint64_t version_lists() const { return version_lists_; }
  std::uint64_t heads() const { return heads_; }
  std::uint64_t most_at_once() const { return most_; }
  /// True once `count` GETs have come to their hold; false after 20 s.
  bool WaitForHeld(std::uint64_t count) const;
  std::optional<GetRequest> last() const;
  /// What each GET asked for, in their order.
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges() const;
  std::uint64_t sent_bytes() const { return sent_bytes_; }  ///< Of all attempts.

  Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) override;
  Task<Result<ListPage>> List(ListRequest request, Deadline deadline) override;
  Task<Result<VersionPage>> ListVersions(VersionsRequest request, Deadline deadline) override;
  Task<Result<ObjectHead>> Head(HeadRequest request, Deadline deadline) override;

 private:
  Task<Status> Hold(Deadline deadline);
  Task<bool> FindS3(const GetRequest* request, const GetScript* script, Deadline deadline);
  Task<Status> Deliver(const GetRequest& request, const GetScript& script, BodySink& sink,
                       Deadline deadline);

  mutable std::mutex mutex_;
  std::function<GetScript(const GetRequest&)> script_;
  Versions versions_;
  std::function<Status()> head_;
  std::optional<GetRequest> last_;
  std::vector<Range> ranges_;
  bool released_ = false;
  bool interrupted_ = false;
  Notifier changed_;
  std::atomic<std::uint64_t> gets_{0};
  std::atomic<std::uint64_t> version_lists_{0};
  std::atomic<std::uint64_t> heads_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> running_{0};
  std::atomic<std::uint64_t> most_{0};
};

}  // namespace forebay::fakes
