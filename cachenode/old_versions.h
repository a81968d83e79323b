#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cachenode/changed_objects.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/base/single_flight.h"
#include "common/s3/object_store.h"

namespace forebay {

/// Which version of an object is the one that a frozen link shows, where a newer one or a deletion
/// has taken its place in a bucket with versioning (docs/adr/0038). Nothing of it is stored: S3 is
/// asked when the first block of such an object is missing, once however many want it, and what it
/// said is remembered for further blocks. Thread-safe.
class OldVersions {
 public:
  using Object = ChangedObjects::Object;

  /// Objects that are remembered; the one that was asked for longest ago gives way.
  static constexpr std::size_t kMost = 4096;
  /// That there is none is believed so long: rights may be given meanwhile.
  static constexpr std::chrono::seconds kAskAgain{60};

  struct Question {
    LinkOrigin origin;
    Object object;
    std::uint64_t size = 0;
    /// Waited for before each request, as GetRequest::before_retry. May be empty.
    std::function<Task<Status>(Deadline)> before_request = {};
    std::function<void()> on_throttled = {};  ///< As GetRequest's.
  };

  explicit OldVersions(ObjectStore& store) : store_(store) {}

  /// What an earlier Find found; "" = nothing.
  std::string Known(const Object& object) const;
  /// S3 has that one no more.
  void Forget(const Object& object);

  /// The id of a version with the object's ETag and size. kStale: there is none, or S3 does not let
  /// us look; the message says what to do. kUnavailable, kOverloaded and kTimeout: S3 has not said.
  Task<Result<std::string>> Find(Question question, Deadline deadline);

 private:
  using Answer = Result<std::string>;
  struct Remembered {
    Answer answer;
    TimePoint at;
  };
  struct Lookup {
    std::mutex mutex;
    std::optional<Answer> answer;  // guarded by mutex
    Notifier landed;
  };
  struct Hash {
    std::size_t operator()(const Object& object) const;
  };

  std::optional<Answer> Recall(const Object& object, TimePoint now) const;
  void Remember(const Object& object, const Answer& answer, TimePoint now);
  Task<Answer> Look(const Question& question, Deadline deadline);
  static Task<Answer> Await(std::shared_ptr<Lookup> lookup, Deadline deadline);

  ObjectStore& store_;
  SingleFlight<Object, Lookup, Hash> lookups_;
  mutable std::mutex mutex_;
  std::map<Object, Remembered> known_;  // guarded by mutex_
};

}  // namespace forebay
