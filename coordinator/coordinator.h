#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "common/wire/client_pool.h"
#include "common/wire/reply_room.h"
#include "common/wire/server.h"
#include "coordinator/admin_service.h"
#include "coordinator/background_fills.h"
#include "coordinator/backup_service.h"
#include "coordinator/cache_census.h"
#include "coordinator/changed_files.h"
#include "coordinator/client_service.h"
#include "coordinator/copy_keeper.h"
#include "coordinator/drainer.h"
#include "coordinator/explainer.h"
#include "coordinator/fill_budget.h"
#include "coordinator/generation_copier.h"
#include "coordinator/job_service.h"
#include "coordinator/link_registry.h"
#include "coordinator/linker.h"
#include "coordinator/member_service.h"
#include "coordinator/membership.h"
#include "coordinator/mount_book.h"
#include "coordinator/mount_service.h"
#include "coordinator/name_uploads.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_service.h"
#include "coordinator/own_requests.h"
#include "coordinator/pin_book.h"
#include "coordinator/pin_keeper.h"
#include "coordinator/policy_service.h"
#include "coordinator/preloader.h"
#include "coordinator/request_budgets.h"
#include "coordinator/state_store.h"
#include "coordinator/stats.h"
#include "coordinator/task_book.h"
#include "coordinator/task_service.h"
#include "coordinator/token_book.h"
#include "coordinator/trust_book.h"
#include "coordinator/trust_service.h"

namespace forebay {

/// What a coordinator needs that others can stand in for.
struct Leadership {
  std::shared_ptr<StateStore> store;  ///< Of all of them.
  /// Whether it still leads. What is asked of it afterwards is refused, and it asks nodes nothing.
  std::function<bool()> holds;
  /// Where the others are that run. Blocks.
  std::function<Result<std::vector<std::string>>()> others;
};

struct CoordinatorOptions {
  std::string state_dir;
  std::string listen;          ///< "127.0.0.1:7440"; port 0 picks one.
  std::string advertise = {};  ///< Where others reach it, when that is not `listen`; "" = it is.
  Reach reach = Reach::kThisMachine;       ///< Of `listen`.
  std::string program;                     ///< "forebay-coordinator 0.1.0".
  Secret secret;                           ///< Of the handshake (LoadOrCreateSecret).
  std::shared_ptr<Trust> trust = nullptr;  ///< Null: no certificates.
  std::string first_token_file;            ///< TokenBook::TakeFirst; "" = none.
  MembershipTimes membership;
  RangeListerOptions listing;
  /// How long a preload asks for a block that a node or S3 does not answer.
  Duration preload_patience = kS3Patience;
  bool background_fill = true;
  std::uint64_t fill_bytes_per_second = 0;   ///< Of each background fill; 0 = no limit.
  std::uint64_t drain_bytes_per_second = 0;  ///< Of each drain; 0 = no limit.
  std::uint64_t reply_bytes = 1ULL << 30;    ///< Of listings on their way to who reads them.
  /// Null: a coordinator that is alone, with its state in `state_dir`.
  std::optional<Leadership> leadership = std::nullopt;
  /// The state is another one now: this coordinator must be stopped, and a new one started. Called
  /// once, on its event loop; must not block.
  std::function<void()> begin_again = [] {};
};

/// What a coordinator of `cluster` shows to its peers; `claim` is of one that leads.
Credentials CoordinatorCredentials(const CoordinatorOptions& options, const Uuid& cluster,
                                   const Fence& claim = {});

/// How the coordinator reaches S3.
struct CoordinatorOrigin {
  ObjectStore& store;
  /// Bounds the store's requests.
  OwnRequests& requests;
  OriginCompleter complete;
  /// Ends the store's calls in flight; called once, while the coordinator stops.
  std::function<void()> interrupt;
};

/// The composition root: owns every part of a coordinator, and the order in which they start and
/// stop.
class Coordinator {
 public:
  /// Loads the state and serves. Blocks. Errors say what to do; nothing is left running then.
  static Result<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options,
                                                    CoordinatorOrigin origin);
  ~Coordinator();  ///< Calls Stop().
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Stops accepting, lets calls in flight end, interrupts listings, saves, closes. Takes at most
  /// about 8 s. Idempotent; not from a thread of the coordinator's own.
  void Stop();

  /// What answers nodes, mounts and the command, for the program's watch over it.
  std::vector<IoPool*> Loops() { return {&io_}; }

  const std::string& address() const { return server_->addresses().front(); }
  const Uuid& cluster() const { return cluster_; }
  std::uint64_t ring_epoch() const { return membership_->epoch(); }

  /// Ring members, links and RPCs at each scrape. The registration ends before the coordinator.
  Metrics::Registration Observe(Metrics& metrics) const;

 private:
  Coordinator(CoordinatorOptions options, CoordinatorOrigin origin);

  Status Load();
  Status Serve();
  void NoteNewerEpoch(std::uint64_t newer);
  Status LoadCluster();
  Status CheckTrust() const;
  void MakeServices();
  std::vector<MethodEntry> AllMethods() const;
  bool Leads() const {
    return !replaced_ && (!options_.leadership || options_.leadership->holds());
  }
  Task<Result<RpcReply>> GetLeader(RpcCall call) const;
  Result<TrustBook::Expected> ExpectedMembers() const;
  Task<Status> FindGeneration(Uuid link, proto::GenerationInfo generation);
  /// Runs `task` on the event loop and waits for it; kTimeout when it takes longer than `patience`.
  Status RunAndWait(Task<void> task, Duration patience);
  Task<void> Maintain();
  Task<void> KeepPins();
  Task<void> KeepCopies();
  Task<void> KeepListings();
  Task<bool> ListAgain(LinkSpec link, std::string path);
  Task<void> KeepFills();
  Task<void> KeepCertificates();
  Task<void> MarkAsOutdated();
  Task<void> MaintainOnce(std::uint64_t second);
  Task<void> ResumeTasks();
  void ServeTasks(NodeCaller call);
  Task<void> ClosePeers();
  Task<Result<RpcReply>> CallNode(NodeInfo node, Method method,
                                  std::shared_ptr<const google::protobuf::MessageLite> request,
                                  Deadline deadline);

  // In the order of construction; destroyed in reverse.
  const CoordinatorOptions options_;
  const CoordinatorOrigin origin_;
  std::shared_ptr<StateStore> store_;
  std::uint64_t fence_ = 0;
  /// What nodes are told: that epoch and this start's own mark, or those of an earlier start
  /// (fence_claim.h).
  Fence claim_;
  bool is_marked_ = false;             ///< As outdated, in the state.
  std::atomic<bool> replaced_{false};  // its state was, by a backup
  Uuid cluster_;
  Offload offload_;
  ReplyRoom replies_;  // its places are in replies, which end with io_
  IoPool io_;
  IoPool listing_;  // fetches and parses what linker_ lists
  std::unique_ptr<ClusterMembers> membership_;
  TaskBook tasks_;
  std::unique_ptr<LinkRegistry> links_;
  std::unique_ptr<FillBudget> budget_;
  std::unique_ptr<PinBook> pins_;
  std::unique_ptr<TrustBook> members_;
  std::unique_ptr<TokenBook> tokens_;
  std::unique_ptr<NamespaceIndex> index_;
  RequestBudgets requests_;
  std::unique_ptr<ChangedFiles> changed_;
  std::unique_ptr<Linker> linker_;
  std::unique_ptr<ClusterStats> stats_;
  std::unique_ptr<ClientPool> peers_;
  std::unique_ptr<GenerationCopier> copier_;
  std::unique_ptr<CacheCensus> census_;
  std::unique_ptr<Explainer> explainer_;
  std::unique_ptr<PinKeeper> pin_keeper_;
  std::unique_ptr<CopyKeeper> copy_keeper_;
  std::unique_ptr<NodeService> node_service_;
  MountBook mounts_;  // on the event loop
  std::unique_ptr<ClientService> client_service_;
  std::unique_ptr<MountService> mount_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<Drainer> drainer_;
  std::unique_ptr<NameUploads> uploads_;
  std::unique_ptr<Preloader> preloader_;
  std::unique_ptr<BackgroundFills> fills_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<TaskService> task_service_;
  std::unique_ptr<PolicyService> policy_service_;
  std::unique_ptr<TrustService> trust_service_;
  std::unique_ptr<MemberService> member_service_;
  std::unique_ptr<BackupService> backup_service_;
  std::unique_ptr<RpcServer> server_;
  std::atomic<std::uint64_t> newest_epoch_{0};  // that a peer was ever seen at
  bool stopped_ = false;
  bool maintaining_ = false;  // on the event loop
  bool keeping_pins_ = false;
  bool keeping_listings_ = false;
  bool keeping_fills_ = false;
  bool keeping_copies_ = false;
  bool stop_maintaining_ = false;
  Notifier maintenance_;
};

}  // namespace forebay
