#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "cachenode/changed_objects.h"
#include "cachenode/node_counters.h"
#include "cachenode/old_versions.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/s3/object_store.h"
#include "common/wire/rpc.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Asks the coordinator for a piece of a listing; from any executor.
using ListingReader =
    std::function<Task<Result<RpcReply>>(proto::ReadSnapshotRequest request, Deadline deadline)>;

/// Where blocks come from when no cache has them: ranged GETs of exactly one version (DESIGN
/// section 5, step 9); the blocks of system links come from the coordinator.
class Origin {
 public:
  /// `on_change` is called when `changed` has something new to report.
  Origin(ObjectStore& store, ChangedObjects& changed, std::function<void()> on_change,
         ListingReader listings = {})
      : store_(store),
        changed_(changed),
        on_change_(std::move(on_change)),
        old_versions_(store),
        listings_(std::move(listings)) {}

  /// Who bounds the requests.
  struct Pace {
    std::function<Task<Status>(Deadline)> before_retry;
    std::function<void()> on_throttled;
    /// Waited for before a request that brings no bytes of the block.
    std::function<Task<Status>(Deadline)> before_question;
    std::function<Task<bool>(RetryReason)> before_pause;
    /// Whether `before_pause` has had what was asked for from elsewhere: that is no error of S3.
    std::function<bool()> is_over;
  };

  /// What one GET asks for.
  struct Question {
    std::shared_ptr<const LinkSpec> link;
    ObjectRef object;
    BlockId block;
    BlockRange part;  ///< Of the block; of a listing all of it.
  };

  /// Streams a part of a block into `sink`. Errors as ObjectStore::Get, but an object that is gone
  /// is kStale: the version that was asked for no longer exists; for an immutable link also not
  /// behind a newer one (OldVersions), or we may not read it there. Counts into `count`.
  /// `pace.before_retry`, `on_throttled` and `before_pause` as GetRequest has them.
  Task<Status> Get(Question question, BodySink& sink, std::shared_ptr<LinkCount> count, Pace pace,
                   Deadline deadline);

  /// Whether S3 serves this node the object, as far as a HEAD tells. kDenied, kUnavailable: it does
  /// not; all else is an answer.
  Task<Status> Look(std::shared_ptr<const LinkSpec> link, ObjectRef object, Deadline deadline);

 private:
  /// The current object is another one, as `gone` says.
  Task<Status> GetOldVersion(GetRequest request, OldVersions::Object object, Pace pace, Error gone,
                             BodySink& sink, Deadline deadline);
  /// How a GET of an older version has gone: kStale also where we may not read it.
  Status OfOldVersion(Status got, const OldVersions::Object& object);
  Task<Status> GetListing(Question question, BodySink& sink, std::shared_ptr<LinkCount> count,
                          Deadline deadline);

  ObjectStore& store_;
  ChangedObjects& changed_;
  const std::function<void()> on_change_;
  OldVersions old_versions_;
  const ListingReader listings_;
};

}  // namespace forebay
