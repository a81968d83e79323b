#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"

namespace forebay {

/// Pages of a thousand versions: an object that was overwritten more often is not worth more.
inline constexpr int kMostHistoryPages = 10;

/// The object as it was listed.
struct VersionQuestion {
  LinkOrigin origin;
  std::string key;
  std::string etag;
  std::uint64_t size = 0;
  /// Waited for before each request, as GetRequest::before_retry. May be empty.
  std::function<Task<Status>(Deadline)> before_request = {};
  std::function<void()> on_throttled = {};  ///< As GetRequest's.
};

/// The id of the newest version with this ETag and size, where the bucket keeps versions
/// (docs/adr/0038). kStale: there is none; the message says when there would be. Other errors are
/// those of `store`, which outlives the task.
Task<Result<std::string>> FindVersion(ObjectStore& store, VersionQuestion question,
                                      Deadline deadline);

}  // namespace forebay
