#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cachenode/batch_filler.h"
#include "cachenode/block_history.h"
#include "cachenode/block_reader.h"
#include "cachenode/byte_pace.h"
#include "cachenode/cluster_view.h"
#include "cachenode/copy_sender.h"
#include "cachenode/disk_keeper.h"
#include "cachenode/filler.h"
#include "cachenode/heartbeat.h"
#include "cachenode/hot_reads.h"
#include "cachenode/known_directories.h"
#include "cachenode/last_run.h"
#include "cachenode/link_rules.h"
#include "cachenode/node_counters.h"
#include "cachenode/origin.h"
#include "cachenode/peer_source.h"
#include "cachenode/pin_releaser.h"
#include "cachenode/service.h"
#include "cachenode/store/block_store.h"
#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/base/network_pace.h"
#include "common/base/offload.h"
#include "common/s3/object_store.h"
#include "common/wire/reply_room.h"
#include "common/wire/server.h"

namespace forebay {

struct NodeOptions {
  BlockStoreOptions store;
  std::string state_dir;  ///< What is known of the store's directories (KnownDirectories).
  /// Of the store's directories, those that are used however they were known.
  std::vector<std::string> accept_new_disk;
  std::vector<std::string> coordinators;
  std::string listen;
  Reach reach = Reach::kThisMachine;  ///< Of `listen`.
  std::string advertise;              ///< "" = the bound address.
  std::string node_id;  ///< "" = kept in the cache directories, made on the first start.
  std::string zone;
  std::string local_socket;  ///< "" = RuntimeDir()/node-<id>.sock.
  std::string program;       ///< "forebay-node 0.1.0".
  Secret secret;
  std::shared_ptr<Trust> trust = nullptr;  ///< Null: no certificates.
  std::size_t threads = 1;
  /// Of data on its way: a quarter for blocks that were filled a moment ago and not kept; of the
  /// rest, half for fills and half for replies.
  std::uint64_t memory_limit = 2ULL << 30;
  FillerOptions filler;  ///< Its bytes follow from `memory_limit`.
  DiskKeeperOptions disks;
  PinReleaseRules pins;
  std::uint64_t max_bandwidth = 0;       ///< Bytes a second each way; 0 = no bound.
  std::uint64_t verify_bytes_per_s = 0;  ///< For `check --verify`; 0 = no bound.
  std::uint64_t copy_bytes_per_s = 0;    ///< Of further copies kept here; 0 = no bound.
};

/// How the node reaches S3.
struct NodeOrigin {
  ObjectStore& store;
  /// Ends the store's calls in flight; called once, while the node stops.
  std::function<void()> interrupt;
};

/// The composition root: owns every part of a cache node, and the order in which they start and
/// stop.
class Node {
 public:
  /// Recovers the cache and serves. Blocks: on the very first start until a coordinator has
  /// answered, or `stopping`.
  static Result<std::unique_ptr<Node>> Start(NodeOptions options, NodeOrigin origin,
                                             Metrics& metrics, std::stop_token stopping);
  ~Node();  ///< Calls Stop() with little patience.
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Stops accepting, lets calls in flight end until `drain`, reports a last time, makes the cache
  /// durable. Idempotent.
  void Stop(Deadline drain);
  /// What answers readers, for the program's watch over it.
  std::vector<IoPool*> Loops() { return {&io_}; }
  /// After Stop: a disk hangs, and threads in it; the destructor would wait for them.
  bool HangsOn() const { return hangs_on_; }

  /// Between Start and Stop, any thread: the sizes of the cache directories as they are configured
  /// now. Does not block: what leaves for a smaller one leaves in the background. What is not
  /// possible, or only at the next start, is said in the log.
  void Resize(const std::vector<CacheDirOptions>& dirs);

  const std::string& address() const { return server_->addresses().front(); }
  const std::string& id() const { return id_; }

 private:
  Node(NodeOptions options, NodeOrigin origin, Metrics& metrics);

  Status ChooseDirectories();
  Status Identify();
  Status RememberDirectories();
  Status CheckTrust() const;
  Credentials OwnCredentials() const;
  Status OpenStore(std::stop_token stopping);
  Status Serve(bool restarted);
  void ApplyDecisions();
  std::vector<LinkRule> Rules() const;
  Task<void> Trim();
  Task<void> ResizeDisk(std::size_t disk, std::uint64_t capacity_bytes);
  Task<void> WatchMemoryKills();
  Status Join(bool restarted, std::stop_token stopping);
  void Observe();
  void ReportDisks(MetricSamples& samples) const;
  void ReportLinks(MetricSamples& samples) const;

  // In the order of construction; destroyed in reverse.
  const NodeOptions options_;
  const NodeOrigin origin_options_;
  Metrics& metrics_;
  std::optional<KnownDirectories> known_;
  std::vector<CacheDirOptions> dirs_;  ///< Of the options, those in service.
  std::vector<std::string> missing_;   ///< The paths of the others.
  std::unique_ptr<LastRun> last_run_;
  RunEnd last_end_ = RunEnd::kStopped;
  std::string id_;
  std::string local_socket_;
  ClusterView cluster_;
  NodeCounters counters_;
  BlockHistory history_;
  Offload offload_;
  ChangedObjects changed_;
  Origin origin_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<BlockStore> store_;
  std::unique_ptr<Filler> filler_;
  std::unique_ptr<BlockReader> reader_;
  std::unique_ptr<BatchFiller> batches_;
  ReplyRoom replies_;  // its places are in replies, which end with io_
  BytePace verify_pace_;
  BytePace copy_pace_;
  NetworkPace send_pace_;
  HotReads hot_reads_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<DiskKeeper> disks_;
  IoPool io_;  // after all that a reply or a coroutine left behind on it may refer to
  std::unique_ptr<PeerSource> peers_;  // its coroutines hold those that wait for them on io_
  std::unique_ptr<CopySender> copies_;
  std::unique_ptr<PinReleaser> pins_;
  std::unique_ptr<RpcServer> server_;
  Metrics::Registration registration_;
  bool stopped_ = false;
  bool hangs_on_ = false;
};

}  // namespace forebay
