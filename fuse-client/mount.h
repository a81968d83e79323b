#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/base/program.h"
#include "common/base/result.h"
#include "common/config/mount_config.h"
#include "common/wire/client_pool.h"
#include "common/wire/peer_health.h"
#include "fuse-client/error_log.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/fuse_ops.h"
#include "fuse-client/job_reporter.h"
#include "fuse-client/job_table.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"
#include "fuse-client/stream_table.h"
#include "fuse-client/worker.h"

namespace forebay {

/// The composition root of forebay-mount: one link on one mount point.
///
/// Start: check the place, obtain the namespace and the ring, mount, start the workers, probe.
/// Stop: unmount (or detach, when busy for too long), end the workers, close.
class MountDaemon final : public Daemon {
 public:
  MountDaemon(const MountConfig& config, ProgramServices& services);
  ~MountDaemon() override;

  Status Start() override;
  void Stop(Deadline drain) override;
  std::vector<std::pair<std::string, std::string>> Addresses() const override;

 private:
  Status Prepare();
  Status ObtainNamespace();
  Status MakeFileSystem();
  Status MountAndServe();
  ClientPoolOptions PoolOptions() const;
  WorkerOptions OptionsOfWorkers() const;
  std::string RenderConfig() const;
  void RegisterMetrics();
  void LeaveMountpoint(Deadline drain);
  void EndWorkers(Deadline drain);
  template <typename T>
  Result<T> RunOnControl(Task<Result<T>> task);

  const MountConfig config_;
  ProgramServices& services_;
  std::string link_name_;
  std::string sub_path_;
  std::string mountpoint_;  // absolute
  Credentials credentials_;
  std::string host_id_;

  IoPool control_;
  IoPool threads_;
  MountStats stats_;
  ErrorLog errors_;
  StreamTable streams_;
  PeerHealth health_;
  RingView ring_;
  std::unique_ptr<ClientPool> control_pool_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<JobTable> jobs_;
  std::unique_ptr<JobReporter> job_reporter_;
  std::unique_ptr<NamespaceSource> source_;
  MountedNamespace namespace_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<FuseSession> session_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Metrics::Registration metrics_;
  bool serving_ = false;            // the workers' threads run
  std::atomic<bool> ended_{false};  // the kernel has let go of the mount
};

/// forebay-mount, and mount.forebay when called by that name. Returns the exit code.
int RunMount(int argc, char** argv);

}  // namespace forebay
