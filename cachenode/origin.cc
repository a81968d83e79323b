#include "cachenode/origin.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace forebay {

Task<Status> Origin::Get(std::shared_ptr<const LinkSpec> link, ObjectRef object, BlockId block,
                         BodySink& sink, std::shared_ptr<LinkCount> count, Pace pace,
                         Deadline deadline) {
  CallStats stats;
  ChangedObjects::Object version{.link = link->id, .key = object.key, .etag = object.etag};
  GetRequest request;
  request.origin = link->origin;
  request.key = std::move(object.key);
  request.etag = std::move(object.etag);
  request.object_size = object.size;
  request.offset = block.offset;
  request.length = block.length;
  request.stats = &stats;
  request.before_retry = std::move(pace.before_retry);
  request.on_throttled = std::move(pace.on_throttled);
  Status got = co_await store_.Get(std::move(request), sink, deadline);
  if (stats.attempts > 1)
    count->s3_retries.fetch_add(stats.attempts - 1, std::memory_order_relaxed);
  if (got) {
    count->s3_gets.fetch_add(1, std::memory_order_relaxed);
    count->s3_bytes.fetch_add(block.length, std::memory_order_relaxed);
    co_return got;
  }
  count->s3_errors.fetch_add(1, std::memory_order_relaxed);
  if (got.error().code == Code::kNotFound) got = Fail(Code::kStale, std::move(got.error().message));
  if (got.error().code == Code::kStale && changed_.Note(std::move(version), Clock::now())) {
    spdlog::warn("{}; the coordinator is told", got.error().message);
    on_change_();
  }
  co_return got;
}

}  // namespace forebay
