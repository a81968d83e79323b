#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cachenode/batch_filler.h"
#include "cachenode/block_history.h"
#include "cachenode/block_reader.h"
#include "cachenode/byte_pace.h"
#include "cachenode/cluster_view.h"
#include "cachenode/copy_sender.h"
#include "cachenode/filler.h"
#include "cachenode/hot_reads.h"
#include "cachenode/node_counters.h"
#include "cachenode/origin.h"
#include "cachenode/peer_source.h"
#include "cachenode/pin_releaser.h"
#include "cachenode/service.h"
#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/base/network_pace.h"
#include "common/model/fence.h"
#include "common/ring/ring.h"
#include "common/wire/client_pool.h"
#include "coordinator/member_table.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/memory_block_store.h"
#include "tests/sim/far_s3.h"
#include "tests/sim/network.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

inline const std::string kCoordinatorMachine = "10.0.1.1";
inline const std::string kCoordinatorAddress = kCoordinatorMachine + ":7441";

/// A process on a machine, which calls others. Base of the programs below, so that its process ends
/// after all that runs in it.
class Program {
 public:
  Program(World& world, Network& network, const std::string& name, const std::string& machine);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Process& process() { return process_; }

 protected:
  /// First in each destructor: nothing of it runs or waits any more.
  void Die() { process_.Kill(); }
  World& world_;
  Network& network_;
  Process process_;
};

/// What a coordinator keeps on its disk.
struct CoordinatorState {
  std::uint64_t starts = 0;  ///< Each is a fencing epoch.
  std::vector<Member> members;
  std::shared_ptr<const RingTable> table = std::make_shared<const RingTable>();
};

/// The rules of membership, as the coordinator applies them, without its disk and its other duties:
/// MemberTable, RingTable and Fence are the real ones.
class SimCoordinator : private Program {
 public:
  struct Options {
    MembershipTimes times;
    proto::LinkState link = {};   ///< What mounts are told of it; without a name: nothing.
    bool forgets_owners = false;  ///< A mutant: its tables do not remember former owners.
  };
  SimCoordinator(World& world, Network& network, CoordinatorState& disk, Options options);
  ~SimCoordinator();
  using Program::process;

  /// How often a node said that it has heard of a newer coordinator.
  std::uint64_t outdated() const { return outdated_; }

  /// What an administrator decides; false: it was refused, or so already.
  using Plan = std::function<Result<std::optional<Member>>(const MemberTable&, TimePoint)>;
  bool Decide(const Plan& plan);
  const RingTable& table() const { return *disk_.table; }
  std::vector<NodeInfo> Nodes() const { return members_.Nodes(Clock::now(), false); }

 private:
  Task<Result<RpcReply>> Register(RpcCall call);
  Task<Result<RpcReply>> Heartbeat(RpcCall call);
  Task<Result<RpcReply>> GetRing(RpcCall call);
  Task<Result<RpcReply>> GetLinks(RpcCall call);
  Task<Result<RpcReply>> ChangeNode(RpcCall call);
  Status CheckFence(const proto::Fence& heard);
  Task<void> Tick();
  void Apply(const Member& after);
  void Commit(const std::vector<Member>& changed, bool new_table);
  Slice Table();

  CoordinatorState& disk_;
  const Options options_;
  const Fence fence_;
  std::uint64_t outdated_ = 0;
  MemberTable members_;
  std::shared_ptr<const Buffer> serialized_;
  std::vector<NodeInfo> serialized_nodes_;
  std::uint64_t serialized_epoch_ = 0;
  IoPool io_{"coordinator", 1};
};

/// What stays of a node when its process is killed: its disks, and what it knew.
struct NodeDisk {
  std::unique_ptr<fakes::MemoryBlockStore> blocks = std::make_unique<fakes::MemoryBlockStore>();
  /// Where it keeps what it knows; "" = in `ring` alone, which takes less time.
  std::string view_file;
  std::shared_ptr<const RingTable> ring = std::make_shared<const RingTable>();
};

/// What all nodes of all worlds share because it takes long to make and decides nothing.
struct NodeShared {
  BlockHistory history;
  Metrics metrics;
};

/// A cache node: the real Service, BlockReader, Filler, PeerSource, CopySender and PinReleaser,
/// over blocks in memory.
class SimNode : private Program {
 public:
  struct Options {
    std::string id;
    std::string machine;
    std::uint64_t capacity = 1ULL << 30;
    std::uint64_t incarnation = 1;  ///< Another one for each process.
    bool restarted = false;
    std::string zone = {};
    bool pinned = false;  ///< The whole link is.
    // Mutants.
    bool asks_nobody = false;     ///< No other node before S3.
    bool stands_alone = false;    ///< And has none ask S3 in its place.
    bool believes_all = false;    ///< Old coordinators too.
    bool keeps_old_ring = false;  ///< Whatever it is told.
    bool keeps_readers = false;   ///< Sends none on to another owner.
    bool says_it_has = false;     ///< What it is asked about.
  };
  SimNode(World& world, Network& network, FarS3& s3, const Dataset& data, NodeDisk& disk,
          NodeShared& shared, Options options);
  ~SimNode();
  using Program::process;

  const std::string& id() const { return options_.id; }
  const std::string& address() const { return address_; }
  std::uint64_t ring_epoch() const { return cluster_.ring_epoch(); }
  Fence fence() const { return cluster_.fence(); }
  std::uint64_t second_gets() const { return filler_->second_gets(); }
  std::uint64_t stand_in_fills() const { return filler_->stand_in_fills(); }
  std::size_t fills() const { return filler_->in_flight(); }
  std::uint64_t sent_on() const { return hot_reads_.sent_on(); }
  bool Has(const BlockId& block) const { return disk_.blocks->Contains(block); }

 private:
  Task<void> Beat();
  Task<Status> BeatOnce();
  Task<Status> Register();
  Status CheckFence(const proto::Fence& fence);
  Status TakeRing(const RpcReply& reply);
  Status Keep();

  const Options options_;
  const std::string address_;
  NodeDisk& disk_;
  ClusterView cluster_;
  NodeCounters counters_;
  ChangedObjects changed_;
  NodesS3 s3_;
  Origin origin_;
  BytePace verify_pace_{0};
  BytePace copy_pace_{0};
  NetworkPace send_pace_{0, "max_bandwidth of this node"};
  HotReads hot_reads_;
  std::unique_ptr<Filler> filler_;
  std::unique_ptr<BlockReader> reader_;
  std::unique_ptr<BatchFiller> batches_;
  std::unique_ptr<Service> service_;
  IoPool io_{"node", 1};
  std::unique_ptr<ClientPool> coordinator_;
  std::unique_ptr<PeerSource> peers_;
  std::unique_ptr<BlockPeers> alone_;  // a mutant's way to them
  std::unique_ptr<CopySender> copies_;
  std::unique_ptr<PinReleaser> pins_;
};

}  // namespace forebay::sim
