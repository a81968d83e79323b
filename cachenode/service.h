#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cachenode/batch_filler.h"
#include "cachenode/block_history.h"
#include "cachenode/block_reader.h"
#include "cachenode/byte_pace.h"
#include "cachenode/cluster_view.h"
#include "cachenode/fence_check.h"
#include "cachenode/filler.h"
#include "cachenode/hot_reads.h"
#include "cachenode/store/block_store.h"
#include "common/base/bucket_counts.h"
#include "common/base/metrics.h"
#include "common/base/network_pace.h"
#include "common/base/result.h"
#include "common/model/block_source.h"
#include "common/wire/server.h"
#include "proto/node.pb.h"

namespace forebay {

namespace proto {
class FillBlocksRequest;
}

/// Whether the block of `request` is a part of its object, and that one of `link`. A node keeps no
/// namespace: it recomputes the version from what the request says, so nobody can read what they
/// cannot name, and nothing is stored under a name that is not its own. kInvalid says what is
/// wrong.
Status CheckBlock(const LinkSpec& link, const BlockRequest& request);
/// And whether its range lies in the block, and is no more than a frame carries.
Status CheckRead(const LinkSpec& link, const BlockRequest& request);

/// A node's RPCs: frame -> call, Error -> status; nothing else.
class Service {
 public:
  struct Parts {
    std::string self;  ///< This node's id.
    ClusterView& cluster;
    BlockReader& reader;
    Filler& filler;
    BatchFiller& batches;
    BlockStore& store;
    BlockHistory& history;
    BytePace& verify_pace;
    BytePace& copy_pace;
    NetworkPace& send_pace;
    HotReads& hot_reads;
    Metrics& metrics;
    /// Asks the coordinator for its links now; any thread.
    std::function<void()> refresh_links;
  };
  explicit Service(Parts parts);

  std::vector<MethodEntry> Methods();
  /// Requests of coordinators that this node does not believe any more.
  std::uint64_t refused_coordinators() const { return fence_check_.refused(); }

 private:
  Task<Result<RpcReply>> ReadBlock(RpcCall call);
  Result<RpcReply> AnswerOf(const CheckedRead& read, const CellPlace& place) const;
  void AddNeighbours(const CheckedRead& read, proto::ReadBlockReply& reply) const;
  Task<Result<RpcReply>> OpenSegment(RpcCall call);
  Task<Result<RpcReply>> NoteReads(RpcCall call);
  Task<Result<RpcReply>> PrefetchBlock(RpcCall call);
  Task<Result<RpcReply>> FillBlocks(RpcCall call);
  Task<Result<RpcReply>> CopyBlocks(RpcCall call);
  Task<Result<RpcReply>> FillBatch(proto::FillBlocksRequest request, BatchWay way,
                                   Deadline deadline);
  Task<Result<RpcReply>> CheckBlocks(RpcCall call);
  bool KeepsAsOwner(const LinkSpec& link, const BlockId& block) const;
  std::string HeatOf(const proto::CheckBlocksRequest& request) const;
  Task<Result<RpcReply>> DescribeBlocks(RpcCall call);
  Task<Result<RpcReply>> VerifyBlocks(RpcCall call);
  /// One block of VerifyBlocks: adds its CRC to `reply` when that is asked for.
  Task<Status> VerifyBlock(BlockId block, const proto::VerifyBlocksRequest& request, int place,
                           proto::VerifyBlocksReply& reply);
  Task<Result<RpcReply>> PinBlocks(RpcCall call);
  Task<Status> WaitForLinks(std::uint64_t version);
  Task<Status> MayAskAbout(proto::CheckBlocksRequest request, PeerIdentity peer);
  Task<Result<RpcReply>> EvictBlocks(RpcCall call);
  Task<Result<RpcReply>> GetRing(RpcCall call);

  /// The request's blocks, each checked as a read would be.
  Task<Result<std::vector<ColdBlock>>> BatchOf(const proto::FillBlocksRequest& request);
  Task<Result<CheckedRead>> Checked(const std::string& message, const PeerIdentity& peer);
  Task<Result<std::shared_ptr<const LinkSpec>>> FindLink(Uuid id);
  Task<void> AwaitRing(std::uint64_t epoch);

  Parts parts_;
  FenceCheck fence_check_;
  std::atomic<std::uint64_t> waited_for_ring_{0};  // in vain
  const std::uint64_t store_number_;  // names the store's segments for others, with their own names
  BucketCounts read_durations_;
  Metrics::Registration registration_;  // Last: its collector uses the above.
};

}  // namespace forebay
