#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/link.h"
#include "common/model/posix_attributes.h"
#include "common/s3/object_checksum.h"
#include "common/s3/retry.h"
#include "common/s3/s3_waits.h"

namespace forebay {

/// What a call cost S3, for whoever counts per link. Filled in while the call runs; read it when
/// the task is done.
struct CallStats {
  std::uint32_t attempts = 0;   ///< Requests made; all but the last were retried.
  std::uint32_t throttled = 0;  ///< Of these, how many S3 answered with "slow down".
};

/// One range of one version of an object. The answer is accepted only when status, Content-Range,
/// ETag and length say exactly this range of exactly this version (DESIGN 6.9).
struct GetRequest {
  LinkOrigin origin;
  std::string key;   ///< Full key, raw bytes.
  std::string etag;  ///< Sent as If-Match and compared with the answer's; without quotes.
  /// Of a bucket with versioning, from ListVersions; "" = the current one.
  std::string version = {};
  std::uint64_t object_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t length =
      0;  ///< > 0; offset + length <= object_size. No Range header when it is the whole object.
  CallStats* stats = nullptr;  ///< Null = not wanted; must live until the task is done.
  /// Waited for before each attempt but the first, which the caller has waited for itself: a retry
  /// is a request like any other to whoever bounds them. Its error ends the call. May be empty.
  std::function<Task<Status>(Deadline)> before_retry = {};
  /// Called whenever S3 answers "slow down", on the caller's executor. May be empty.
  std::function<void()> on_throttled = {};
  /// Waited for when an attempt has failed, before the pause to the next: `sink` is not called
  /// meanwhile. True: nothing more is wanted of S3, and the call ends with the attempt's error. May
  /// be empty.
  std::function<Task<bool>(RetryReason)> before_pause = {};
};

/// Receives a body. Called on the object store's own thread, one call at a time; must not block.
/// The headers have been checked before the first OnData, so the bytes may be served at once, but
/// for HoldBack.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// A new attempt begins at the first byte: what came before counts as nothing. Called for
  /// attempts whose headers were right; others leave no trace here.
  virtual void OnAttempt() = 0;
  /// After OnAttempt: the bytes of this attempt are compared with the object's own checksum at
  /// their end. They are not to be served before the call has ended with success.
  virtual void HoldBack() {}
  /// The next bytes. Never more than `length` bytes in all.
  virtual void OnData(ByteView bytes) = 0;
};

struct ListedObject {
  std::string key;  ///< Decoded, raw bytes.
  std::uint64_t size = 0;
  /// Without quotes. "" of an object whose size, ETag or date is missing or invalid in the list, or
  /// whose key is too long for S3: it is there and cannot be read, and breaks no other one's
  /// listing.
  std::string etag;
  std::int64_t mtime_s = 0;   ///< LastModified, seconds since 1970.
  std::string storage_class;  ///< "STANDARD", "GLACIER", … as S3 says; "" when it says nothing.
};

struct ListRequest {
  LinkOrigin origin;  ///< `origin.prefix` is ignored; `prefix` below counts.
  std::string prefix;
  std::string start_after;        ///< "" = from the beginning. Ignored when `continuation` is set.
  std::string continuation;       ///< `next` of the page before.
  std::string delimiter;          ///< "" or "/".
  std::uint32_t max_keys = 1000;  ///< S3's own maximum.
  CallStats* stats = nullptr;     ///< Null = not wanted; must live until the task is done.
};

struct ListPage {
  std::vector<ListedObject> objects;         ///< In S3's order: by UTF-8 bytes of the key.
  std::vector<std::string> common_prefixes;  ///< Only with a delimiter.
  std::string next;                          ///< Continuation token; "" = this was the last page.
};

/// A version of an object that a bucket with versioning keeps.
struct KeptVersion {
  std::string id;  ///< "null" of what is older than the bucket's versioning.
  std::uint64_t size = 0;
  std::string etag;  ///< Without quotes.
};

struct VersionsRequest {
  LinkOrigin origin;           ///< `origin.prefix` is ignored.
  std::string key;             ///< Full key, raw bytes; of this one alone.
  std::string continuation;    ///< `next` of the page before.
  CallStats* stats = nullptr;  ///< Null = not wanted; must live until the task is done.
  /// As those of GetRequest.
  std::function<Task<Status>(Deadline)> before_retry = {};
  std::function<void()> on_throttled = {};
};

struct VersionPage {
  std::vector<KeptVersion> versions;  ///< Newest first; without deletions and what has no id.
  std::string next;                   ///< "" = there are no more of this key.
};

struct HeadRequest {
  LinkOrigin origin;
  std::string key;           ///< Full key, raw bytes.
  std::string version = {};  ///< As GetRequest's.
};

struct ObjectHead {
  std::uint64_t size = 0;
  std::string etag;
  std::int64_t mtime_s = 0;
  std::string storage_class;
  /// Of the whole object, as it was uploaded; nothing where the store has none or a composite one.
  std::optional<ObjectChecksum> checksum = std::nullopt;
  PosixAttributes posix = {};  ///< From x-amz-meta-file-*.
};

/// An S3-compatible object store. Calls may come from any executor and resume on it. Each call
/// retries by itself what is worth retrying until `deadline` (common/s3/retry.h) and then answers
/// why: kNotFound a signed 404; kStale 412, 416 or another ETag; kDenied 401/403 or no credentials
/// (the message names key id, provider, region, endpoint, never a secret); kUnavailable network or
/// 5xx until the deadline; kOverloaded throttled until the deadline; kInvalid a request or an
/// origin that can never work, also an archived object; kCorrupt answers that contradict
/// themselves, three times over; kTimeout a call that was cancelled.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Streams the range into `sink`. `sink` must live until the task is done; on an error what it
  /// got counts as nothing.
  virtual Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) = 0;
  virtual Task<Result<ListPage>> List(ListRequest request, Deadline deadline) = 0;
  /// The versions of one key, up to a thousand. A bucket that never had versioning has the current
  /// one alone.
  virtual Task<Result<VersionPage>> ListVersions(VersionsRequest request, Deadline deadline) = 0;
  virtual Task<Result<ObjectHead>> Head(HeadRequest request, Deadline deadline) = 0;

  /// The calls that it does not answer, by place, at most `most`. Any thread.
  virtual std::vector<UnansweredPlace> Waits(std::size_t /*most*/) const { return {}; }
};

}  // namespace forebay
