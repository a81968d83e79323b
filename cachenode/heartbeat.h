#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cachenode/changed_objects.h"
#include "cachenode/cluster_view.h"
#include "cachenode/coordinator_news.h"
#include "cachenode/last_run.h"
#include "cachenode/node_counters.h"
#include "cachenode/s3_brakes.h"
#include "cachenode/store/block_store.h"
#include "cachenode/unserved_links.h"
#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/model/membership.h"
#include "common/s3/object_store.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/trust_keeper.h"
#include "proto/coordinator.pb.h"

namespace forebay {

struct HeartbeatOptions {
  std::vector<std::string> coordinators;
  Credentials credentials;
  std::shared_ptr<Trust> trust = nullptr;  ///< Kept young; null: no certificates.
  Duration every = kHeartbeatEvery;
};

/// What a node reports of itself beside what its parts count.
struct NodeFacts {
  std::vector<std::string> missing_dirs;  ///< Configured cache directories that it does not use.
  RunEnd last_end = RunEnd::kStopped;
  const ObjectStore* s3 = nullptr;          ///< Whose calls may wait. Null: nobody's.
  const UnservedLinks* unserved = nullptr;  ///< Null: there are none.
};

/// A node's side of its membership: learns the cluster, registers, reports once a second, and takes
/// over links and ring tables. Without a coordinator the node serves on from what is known: nothing
/// here is a condition for serving. Has an event loop of its own. Public calls from any thread
/// unless said otherwise.
class Heartbeat {
 public:
  Heartbeat(HeartbeatOptions options, ClusterView& cluster, NodeCounters& counters,
            ChangedObjects& changed, Offload& offload);
  ~Heartbeat();  ///< Calls Stop() without patience.
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Asks the coordinators until one answers which cluster this is; says every 10 s that it waits.
  /// Blocks. kUnavailable when `stopping` is asked for; kDenied when a coordinator refuses us.
  Result<Uuid> LearnCluster(std::stop_token stopping);

  /// Begins to register and to report on `store`, on what `brakes` let through, and `facts`.
  /// `self.address` is final.
  void Start(NodeInfo self, BlockStore& store, S3Brakes& brakes, NodeFacts facts);
  /// Blocks until the first registration; kInvalid or kDenied when it is refused, kUnavailable when
  /// `stopping`.
  Status WaitUntilRegistered(std::stop_token stopping);

  /// Sends the next heartbeat now: the answer brings new links.
  void Hurry();
  /// A piece of a listing from the coordinator that leads; any executor. Fails as the call.
  Task<Result<RpcReply>> ReadListing(proto::ReadSnapshotRequest request);

  /// A peer goes by a newer ring table than ours.
  void NoticeEpoch(std::uint64_t epoch);

  /// Reports once more, so that the last reads are counted, and ends, at `deadline` at the latest.
  /// Blocks. Idempotent.
  void Stop(Deadline deadline);

 private:
  Task<Result<RpcReply>> AskForCluster();
  Task<Result<RpcReply>> AskForListing(proto::ReadSnapshotRequest request);
  Status CheckFence(const proto::Fence& fence);
  Task<Result<RpcReply>> Ask(Method method, const google::protobuf::MessageLite& request);
  Task<void> Beat();
  void KeepTrust();
  Task<Result<RpcReply>> AskToRenew(std::shared_ptr<const proto::RenewRequest> request);
  Task<Status> Register();
  Task<Status> Report();
  Task<Status> FetchRing();
  Task<Status> TakeLinks(google::protobuf::RepeatedPtrField<proto::LinkSpec> messages,
                         std::uint64_t version);
  Task<Status> TakeRing(Slice bytes);
  Task<Status> TakeFillLimits(FillLimits limits);
  Task<void> KeepView();
  void KeepFence();
  std::uint64_t Room() const;
  proto::HeartbeatRequest Compose() const;
  bool IsOfListings(const Uuid& link) const;
  void ComposeLinks(proto::HeartbeatRequest& request) const;
  void ComposeRefusals(proto::HeartbeatRequest& request) const;
  void TakeLeases(const proto::HeartbeatReply& reply);
  void NoteOutcome(const Status& status);

  const HeartbeatOptions options_;
  ClusterView& cluster_;
  NodeCounters& counters_;
  ChangedObjects& changed_objects_;
  Offload& offload_;
  const std::uint64_t incarnation_;
  IoPool io_;
  std::unique_ptr<ClientPool> coordinators_;
  std::unique_ptr<Coordinators> leader_;  // among them
  NodeInfo self_;
  BlockStore* store_ = nullptr;
  S3Brakes* brakes_ = nullptr;
  NodeFacts facts_;
  TimePoint started_;

  // On the event loop only.
  // What the view's file has, or is about to have.
  Fence kept_fence_;
  std::vector<RequestLease> kept_leases_;
  TimePoint keep_leases_at_;  // not earlier
  bool registered_ = false;
  CoordinatorNews news_;

  Notifier hurry_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> wanted_epoch_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;         // guarded by mutex_
  std::optional<Status> first_;  // guarded by mutex_: how the first registration ended
};

}  // namespace forebay
