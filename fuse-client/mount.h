#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/offload.h"
#include "common/base/program.h"
#include "common/base/result.h"
#include "common/config/mount_config.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/peer_health.h"
#include "fuse-client/all_links.h"
#include "fuse-client/copies/local_copies.h"
#include "fuse-client/inherited.h"
#include "fuse-client/job_keeper.h"
#include "fuse-client/job_reporter.h"
#include "fuse-client/job_table.h"
#include "fuse-client/link_follower.h"
#include "fuse-client/link_mount.h"
#include "fuse-client/mount_metrics.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/passed_segments.h"
#include "fuse-client/ring_view.h"

namespace forebay {

/// The composition root of forebay-mount: one link on one mount point, or with the source "/" all
/// of them below it.
///
/// Start: check the place, obtain the namespace and the ring, mount, start the workers, probe.
/// Stop: unmount (or detach, when busy for too long), end the workers, close.
///
/// As the successor of a process that served the mount it goes on with what that left, and needs
/// nobody for it: neither a coordinator nor a look at the mount point.
class MountDaemon final : public Daemon {
 public:
  /// `device` is what the mount table shows as the source. Without a `keeper` nobody survives this
  /// process. `trust_dir` holds its certificates; "" = none.
  MountDaemon(const MountConfig& config, std::string device, ProgramServices& services,
              Keeper* keeper = nullptr, std::string trust_dir = "");
  ~MountDaemon() override;

  Status Start() override;
  void Stop(Deadline drain) override;
  void Reload() override { ReloadTrust(trust_.get()); }
  std::vector<std::pair<std::string, std::string>> Addresses() const override;

  /// Any thread: Stop() will not unmount, but end this process and leave the mount to a successor.
  void LeaveToSuccessor();

 private:
  Status PreparePlace();
  Status PrepareSource();
  Task<bool> HasNodes();
  void ReportListings(MetricSamples& samples) const;
  void PrepareJobs();
  void SaveJobs(Deadline deadline);
  [[noreturn]] void Leave();
  Status Prepare();
  void ListenForOrders();
  Status MountOne(const std::string& link, const std::string& sub_path);
  Status MountAll(const std::string& set);
  Status MountNamed();
  void Introduce();
  Status StartThreads(const Uuid& cluster, const std::string& cluster_dir, bool from_disk);
  Deadline NamespaceDeadline() const;
  ClientPoolOptions PoolOptions() const;
  std::unique_ptr<ClientPool> NewPool(asio::io_context& context);
  LinkMountShares Shares();
  void EveryReport();
  void LeaveMountpoint(Deadline last_try);
  void EndWorkers(Deadline drain);
  void KeepTrust();
  Task<Result<RpcReply>> AskToRenew(std::shared_ptr<const proto::RenewRequest> request);
  void ClosePools();

  const MountConfig config_;
  const std::string device_;
  const std::string trust_dir_;
  ProgramServices& services_;
  std::unique_ptr<Keeper> own_keeper_;
  Keeper* keeper_;
  std::vector<InheritedMount> inherited_;  // until they are gone on with
  std::string mountpoint_;                 // absolute
  std::shared_ptr<Trust> trust_;
  Credentials credentials_;
  std::string host_id_;

  // Before the threads, whose coroutines hold parts of them.
  MemoryBudget memory_;
  NetworkPace bandwidth_;
  MountMetrics metrics_;
  Metrics::Registration trust_metrics_;
  IoPool control_;
  IoPool threads_;
  Offload offload_;
  PeerHealth health_;
  NodePace pace_;
  RingView ring_;
  KernelInodeTotal kernel_inodes_;
  PassedSegments segments_{PassedSegments::UsualLimit(), config_.memory_limit / 8};
  std::unique_ptr<ClientPool> control_pool_;
  std::unique_ptr<Coordinators> leader_;  // among them
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<JobTable> jobs_;
  std::unique_ptr<JobKeeper> job_keeper_;
  std::unique_ptr<JobReporter> job_reporter_;
  // Of listings, which are no reads of a link.
  WorkerStats listing_stats_;
  NodePace listing_pace_;
  std::unique_ptr<BlockClient> listing_blocks_;
  SnapshotCounts listing_counts_;
  Metrics::Registration listing_metrics_;
  std::unique_ptr<NamespaceSource> source_;
  std::vector<std::unique_ptr<ClientPool>> pools_;  // one for each of threads_
  std::unique_ptr<LocalCopies> copies_;             // null: none are kept
  LocalSocket local_socket_;
  std::unique_ptr<LinkMount> one_;          // this
  std::unique_ptr<LinkFollower> follower_;  // of it
  std::unique_ptr<AllLinks> all_;           // or this
  bool serving_ = false;                    // the workers' threads run
  std::atomic<bool> leaving_{false};
};

}  // namespace forebay
