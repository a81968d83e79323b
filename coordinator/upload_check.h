#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/link.h"
#include "common/s3/object_store.h"
#include "coordinator/node_calls.h"
#include "coordinator/preload_plan.h"

namespace forebay {

/// Compares what the cache holds of each object of a plan with the checksum that S3 has of what was
/// uploaded: a HEAD says that one, the nodes read their blocks and answer each one's CRC, and the
/// CRCs of an object's blocks are put together. What differs is evicted. On one event loop.
class UploadCheck : public std::enable_shared_from_this<UploadCheck> {
 public:
  struct Parts {
    NodeCaller call;
    ObjectStore& origin;
    Offload& offload;
    std::vector<NodeInfo> nodes;
    std::function<bool()> stopped;
    Duration patience;  ///< With S3 or a node that does not answer.
  };
  struct Counts {
    std::uint64_t verified = 0;
    /// S3 has no checksum of the whole object that can be put together from blocks: none at all, a
    /// composite one, or a SHA; or the object of a frozen link was overwritten or deleted since,
    /// and S3 does not keep that version, or does not let us ask for it.
    std::uint64_t without = 0;
    std::uint64_t mismatched = 0;
    std::uint64_t not_cached = 0;  ///< Not all blocks are there any more.
  };
  struct Failure {
    std::uint32_t row = 0;
    std::uint64_t bytes = 0;
    std::string reason;
  };

  UploadCheck(Parts parts, LinkSpec link, std::shared_ptr<const PreloadPlan> plan);

  /// kUnavailable: it was stopped. Objects that fail do not end it.
  Task<Status> Run();

  const Counts& counts() const { return counts_; }
  /// Objects that differ, or of which S3 does not say what it has.
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  struct Object {
    std::uint32_t row = 0;
    std::string key;
    std::string etag;
    std::uint64_t size = 0;
    std::vector<BlockId> blocks;
    std::optional<ObjectChecksum> checksum = std::nullopt;
    std::vector<std::optional<std::uint64_t>> crcs = {};  // of the blocks
    bool copies_differ = false;  // two nodes hold different bytes of one block
  };
  using Batch = std::shared_ptr<std::vector<Object>>;
  // An object that S3 has not been asked about yet.
  struct Unasked {
    Batch batch;
    std::size_t object = 0;
    std::shared_ptr<std::size_t> left;  // of its batch
  };

  Result<Batch> NextBatch();
  Task<void> CheckBatch(Batch batch);
  Task<void> LookUp(Batch batch);
  Task<void> AskS3();
  Task<void> AskAbout(Batch batch, std::size_t place);
  Task<Result<ObjectHead>> HeadOfListed(Batch batch, std::size_t place);
  Task<Status> AskForCrcs(Batch batch, CrcKind kind);
  Task<void> Judge(Batch batch);
  Task<void> Evict(std::vector<BlockId> blocks);
  void Fail(const Object& object, std::string reason);

  const Parts parts_;
  const LinkSpec link_;
  const std::shared_ptr<const PreloadPlan> plan_;
  PreloadWalk walk_;            // only in NextBatch
  std::optional<Object> open_;  // only in NextBatch: its last block is still to come
  asio::any_io_executor executor_;
  std::size_t in_flight_ = 0;  // batches
  std::deque<Unasked> unasked_;
  std::size_t heads_in_flight_ = 0;
  std::optional<Error> versions_refused_;  // S3 does not list versions
  Counts counts_;
  std::vector<Failure> failures_;
  Notifier changed_;
};

}  // namespace forebay
