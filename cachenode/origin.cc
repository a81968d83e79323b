#include "cachenode/origin.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "common/model/system_link.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

/// S3 has the version that was asked for no more.
bool IsGone(const Status& got) {
  return !got && (got.error().code == Code::kStale || got.error().code == Code::kNotFound);
}

}  // namespace

Task<Status> Origin::Get(Question question, BodySink& sink, std::shared_ptr<LinkCount> count,
                         Pace pace, Deadline deadline) {
  if (IsSystemLink(*question.link)) {
    Status got = co_await GetListing(std::move(question), sink, std::move(count), deadline);
    co_return got;
  }
  CallStats stats;
  const std::shared_ptr<const LinkSpec> link = std::move(question.link);
  ObjectRef object = std::move(question.object);
  const BlockRange part = question.part;
  ChangedObjects::Object version{.link = link->id, .key = object.key, .etag = object.etag};
  GetRequest request;
  request.origin = link->origin;
  request.key = std::move(object.key);
  request.etag = std::move(object.etag);
  request.object_size = object.size;
  request.offset = question.block.offset + part.begin;
  request.length = part.size();
  request.stats = &stats;
  request.before_retry = pace.before_retry;
  request.on_throttled = pace.on_throttled;
  request.before_pause = pace.before_pause;
  const std::function<bool()> is_over = pace.is_over;
  const bool frozen = link->refresh == RefreshPolicy::kImmutable;
  if (frozen) request.version = old_versions_.Known(version);
  Status got = co_await store_.Get(request, sink, deadline);
  if (stats.attempts > 1)
    count->s3_retries.fetch_add(stats.attempts - 1, std::memory_order_relaxed);
  if (!request.version.empty()) {
    got = OfOldVersion(std::move(got), version);
  } else if (frozen && IsGone(got)) {
    CallStats again;
    request.stats = &again;
    got = co_await GetOldVersion(std::move(request), version, std::move(pace),
                                 std::move(got.error()), sink, deadline);
    if (again.attempts > 1)
      count->s3_retries.fetch_add(again.attempts - 1, std::memory_order_relaxed);
  }
  if (got) {
    count->s3_gets.fetch_add(1, std::memory_order_relaxed);
    count->s3_bytes.fetch_add(part.size(), std::memory_order_relaxed);
    co_return got;
  }
  const bool came = is_over && is_over();
  (came ? count->s3_retries : count->s3_errors).fetch_add(1, std::memory_order_relaxed);
  if (came) co_return got;
  if (got.error().code == Code::kNotFound) got = Fail(Code::kStale, std::move(got.error().message));
  if (got.error().code == Code::kStale && changed_.Note(std::move(version), Clock::now())) {
    spdlog::warn("{}; the coordinator is told", got.error().message);
    on_change_();
  }
  co_return got;
}

Task<Status> Origin::Look(std::shared_ptr<const LinkSpec> link, ObjectRef object,
                          Deadline deadline) {
  HeadRequest request;
  request.origin = link->origin;
  request.key = std::move(object.key);
  const Result<ObjectHead> head = co_await store_.Head(std::move(request), deadline);
  if (!head) co_return Fail(head.error());
  co_return Status();
}

Task<Status> Origin::GetOldVersion(GetRequest request, OldVersions::Object object, Pace pace,
                                   Error gone, BodySink& sink, Deadline deadline) {
  OldVersions::Question question;
  question.origin = request.origin;
  question.object = object;
  question.size = request.object_size;
  question.before_request = pace.before_question;
  question.on_throttled = pace.on_throttled;
  Result<std::string> found = co_await old_versions_.Find(std::move(question), deadline);
  if (!found && found.error().code == Code::kStale) {
    co_return Fail(Code::kStale, gone.message + "; " + found.error().message);
  }
  if (!found) co_return Fail(std::move(found.error()));
  if (pace.before_retry) {
    Status may = co_await pace.before_retry(deadline);
    if (!may) co_return may;
  }
  request.version = *std::move(found);
  Status got = co_await store_.Get(std::move(request), sink, deadline);
  co_return OfOldVersion(std::move(got), object);
}

// Who may read the current object and not this one is told which right is missing.
Status Origin::OfOldVersion(Status got, const OldVersions::Object& object) {
  if (IsGone(got)) old_versions_.Forget(object);
  const bool is_refused = !got && got.error().code == Code::kDenied;
  if (!is_refused && !IsGone(got)) return got;
  return Fail(Code::kStale, "the object has changed, and its older version cannot be read: " +
                                got.error().message);
}

/// A reader of what is gone asks the coordinator itself, and hears of the next generation.
Task<Status> Origin::GetListing(Question question, BodySink& sink, std::shared_ptr<LinkCount> count,
                                Deadline deadline) {
  const ObjectRef& object = question.object;
  const BlockId& block = question.block;
  const std::optional<SnapshotObject> file = ParseSnapshotKey(object.key);
  const std::optional<DigestHalves> digest = ParseSnapshotEtag(object.etag);
  if (!file || !digest || !listings_) {
    co_return Fail(Code::kInvalid,
                   "'" + object.key + "' is no listing of link " + question.link->name);
  }
  proto::ReadSnapshotRequest request;
  request.set_link(BytesOf(OwnerOfSystemLink(*question.link)));
  request.set_generation(file->generation);
  request.set_before(file->before);
  request.set_digest_high(digest->high);
  request.set_digest_low(digest->low);
  request.set_offset(block.offset);
  request.set_length(block.length);
  const Result<RpcReply> reply = co_await listings_(std::move(request), deadline);
  if (!reply && reply.error().code == Code::kNotFound)
    co_return Fail(Code::kStale, reply.error().message);
  if (!reply) co_return Fail(reply.error());
  if (reply->payload.bytes.size() != block.length) {
    co_return Fail(Code::kCorrupt, "the coordinator sent a piece of a listing of wrong length");
  }
  sink.OnAttempt();
  sink.OnData(reply->payload.bytes);
  count->s3_bytes.fetch_add(block.length, std::memory_order_relaxed);
  co_return Status();
}

}  // namespace forebay
