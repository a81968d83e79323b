#include "common/s3/version_search.h"

#include <fmt/format.h>

#include <utility>

namespace forebay {

Task<Result<std::string>> FindVersion(ObjectStore& store, VersionQuestion question,
                                      Deadline deadline) {
  std::string continuation;
  for (int page = 0; page < kMostHistoryPages; ++page) {
    if (question.before_request) {
      Status may = co_await question.before_request(deadline);
      if (!may) co_return Fail(std::move(may.error()));
    }
    VersionsRequest request;
    request.origin = question.origin;
    request.key = question.key;
    request.continuation = std::move(continuation);
    request.before_retry = question.before_request;
    request.on_throttled = question.on_throttled;
    Result<VersionPage> got = co_await store.ListVersions(std::move(request), deadline);
    if (!got) co_return Fail(std::move(got.error()));
    for (KeptVersion& version : got->versions) {
      if (version.etag == question.etag && version.size == question.size)
        co_return std::move(version.id);
    }
    if (got->next.empty()) {
      co_return Fail(Code::kStale,
                     fmt::format("S3 keeps no version of it with ETag {}: a bucket keeps what is "
                                 "overwritten or deleted while versioning is on, as long as its "
                                 "life cycle rules say",
                                 question.etag));
    }
    continuation = std::move(got->next);
  }
  co_return Fail(Code::kStale, fmt::format("ETag {} is not among its {} newest pages of versions",
                                           question.etag, kMostHistoryPages));
}

}  // namespace forebay
