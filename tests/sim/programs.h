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
#include "cachenode/send_pace.h"
#include "cachenode/service.h"
#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/base/offload.h"
#include "common/ring/ring.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/peer_health.h"
#include "coordinator/member_table.h"
#include "fuse-client/block_client.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"
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
  std::vector<Member> members;
  std::shared_ptr<const RingTable> table = std::make_shared<const RingTable>();
};

/// The rules of membership, as the coordinator applies them, without its disk and its other duties:
/// MemberTable and RingTable are the real ones.
class SimCoordinator : private Program {
 public:
  SimCoordinator(World& world, Network& network, CoordinatorState& disk, MembershipTimes times);
  ~SimCoordinator();
  using Program::process;

  /// What an administrator decides; false: it was refused, or so already.
  using Plan = std::function<Result<std::optional<Member>>(const MemberTable&, TimePoint)>;
  bool Decide(const Plan& plan);
  const RingTable& table() const { return *disk_.table; }
  std::vector<NodeInfo> Nodes() const { return members_.Nodes(Clock::now(), false); }

 private:
  Task<Result<RpcReply>> Register(RpcCall call);
  Task<Result<RpcReply>> Heartbeat(RpcCall call);
  Task<Result<RpcReply>> GetRing(RpcCall call);
  Task<void> Tick();
  void Commit(const std::vector<Member>& changed, bool new_table);
  Slice Table();

  CoordinatorState& disk_;
  MemberTable members_;
  std::shared_ptr<const Buffer> serialized_;
  std::vector<NodeInfo> serialized_nodes_;
  std::uint64_t serialized_epoch_ = 0;
  IoPool io_{"coordinator", 1};
};

/// What stays of a node when its process is killed: its disks, and what it knew.
struct NodeDisk {
  std::unique_ptr<fakes::MemoryBlockStore> blocks = std::make_unique<fakes::MemoryBlockStore>();
  std::shared_ptr<const RingTable> ring = std::make_shared<const RingTable>();
};

/// What all nodes of all worlds share because it takes long to make and decides nothing.
struct NodeShared {
  BlockHistory history;
  Metrics metrics;
};

/// A cache node: the real Service, BlockReader, Filler, PeerSource and CopySender, over blocks in
/// memory.
class SimNode : private Program {
 public:
  struct Options {
    std::string id;
    std::string machine;
    std::uint64_t capacity = 1ULL << 30;
    std::uint64_t incarnation = 1;  ///< Another one for each process.
    bool restarted = false;
  };
  SimNode(World& world, Network& network, FarS3& s3, const Dataset& data, NodeDisk& disk,
          NodeShared& shared, Options options);
  ~SimNode();
  using Program::process;

  const std::string& id() const { return options_.id; }
  const std::string& address() const { return address_; }
  std::uint64_t ring_epoch() const { return cluster_.ring_epoch(); }
  std::size_t fills() const { return filler_->in_flight(); }
  std::uint64_t sent_on() const { return hot_reads_.sent_on(); }
  bool Has(const BlockId& block) const { return disk_.blocks->Contains(block); }

 private:
  Task<void> Beat();
  Task<Status> BeatOnce();
  Status TakeRing(const RpcReply& reply);

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
  SendPace send_pace_{0};
  HotReads hot_reads_;
  std::unique_ptr<Filler> filler_;
  std::unique_ptr<BlockReader> reader_;
  std::unique_ptr<BatchFiller> batches_;
  std::unique_ptr<Service> service_;
  IoPool io_{"node", 1};
  std::unique_ptr<ClientPool> coordinator_;
  std::unique_ptr<PeerSource> peers_;
  std::unique_ptr<CopySender> copies_;
};

/// What all reads of a run have come to.
struct ReadTally {
  std::uint64_t reads = 0;
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  Duration longest{};
  std::string first_failure;
};

/// A mount's way to blocks: the real BlockClient with all that it goes by, and readers.
class SimMount : private Program {
 public:
  SimMount(World& world, Network& network, const Dataset& data, const std::string& machine,
           ReadTally& tally);
  ~SimMount();
  using Program::process;

  /// A reader that reads `count` blocks that `next` names, with a pause up to `pause` before each.
  void Read(std::size_t count, std::function<std::size_t()> next, Duration pause);
  std::size_t readers() const { return readers_; }
  std::uint64_t ring_epoch() const { return ring_.epoch(); }
  void Offer(const RingTable& table) { ring_.Offer(table); }

 private:
  Task<void> RunReader(std::size_t count, std::function<std::size_t()> next, Duration pause);
  void Note(std::size_t object, const Result<Cells>& cells, Duration took);

  const Dataset& data_;
  ReadTally& tally_;
  RingView ring_;
  PeerHealth health_;
  NodePace pace_;
  WorkerStats stats_;
  std::size_t readers_ = 0;
  std::unique_ptr<BlockClient> client_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<ClientPool> pool_;
  IoPool io_{"mount", 1};
};

}  // namespace forebay::sim
