#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/owned_fd.h"
#include "fuse-client/supervisor/private_socket.h"
#include "fuse-client/supervisor/refuser.h"
#include "fuse-client/supervisor/request_slots.h"
#include "fuse-client/supervisor/restart_pace.h"
#include "fuse-client/supervisor/stored_mount.h"
#include "fuse-client/supervisor/worker_process.h"

struct pollfd;

namespace forebay {

struct SupervisorOptions {
  std::string mountpoint;  ///< Absolute; for messages, and for nothing else.
  WorkerCommand command;
  std::size_t arenas = 1;   ///< Threads of a worker that serve.
  std::string socket_path;  ///< Where upgrades are asked for. "" = nowhere.
  /// When the first worker serves, with its ready line. An error stops the mount.
  std::function<Status(const std::string&)> on_ready;
  std::function<void()> on_stopping;
  std::function<void()> reopen_log;
  /// Takes the mount out of the tree: there is no worker to do it.
  std::function<void()> detach;
  /// Where what is kept is kept, too, and what an earlier supervisor has left; outlives the
  /// supervisor. Null = the mount ends with this process.
  StoredMount* stored = nullptr;
  /// SIGTERM leaves a mount that is stored to the next start, as SIGUSR2 does: whoever sends it
  /// does not know whether there will be one.
  bool term_leaves = false;
  /// So often systemd wants to hear of this service. Workers tell it while they serve, and the
  /// supervisor while none does.
  std::optional<std::chrono::microseconds> watchdog;
  std::function<void()> feed_watchdog;
};

/// What stays of a mount while its workers come and go: it holds every /dev/fuse, the slots with
/// the requests that are not answered, and what workers keep for those after them. It serves
/// nothing, looks at no path below the mount (which would wait for a worker), has one thread, and
/// waits for nothing but events, and for a holder to take a descriptor: the first time that it does
/// not answer for HolderStore::kAnswersWithin.
///
///     starting: a worker that ends takes this process with it, and its exit code
///     serving:  a worker that dies is followed by another, at the pace of RestartPace
///     stopping: the worker unmounts and ends; its exit code is the program's
///     resting:  it is started again (SIGUSR2), and somebody has every descriptor meanwhile; the
///               worker leaves its mount, and the next supervisor begins in `serving`
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);
  /// The program's life; answers its exit code.
  int Run();

 private:
  /// A new program on its way to take over.
  struct Upgrade {
    HandoverChannel client = {};
    OwnedFd program = {};
    std::string version = {};
    std::optional<WorkerProcess> candidate = {};  ///< Until it is the worker.
    bool prepared = false;
    TimePoint prepared_by = {};
  };

  Status Open();
  void Wait();
  std::vector<pollfd> Waiting() const;
  Duration UntilNextTimer() const;
  void OnTimers();

  void OnSignals();
  void Reap();
  void Stop();
  void Terminate();
  void Rest();
  void KeepStored();
  void EndStored();
  void BreakOffUpgrade();
  void FeedWatchdog();

  void StartWorker();
  void LetServe(WorkerProcess& worker);
  void TakeMessages(std::optional<WorkerProcess>& worker);
  void OnMessage(WorkerProcess& worker, HandoverMessage message);
  void OnReady(WorkerProcess& worker, const std::string& line);
  void OnWorkerGone(int status);
  void OnGoneAtStart(const WorkerProcess& worker, int status);
  void OnGoneInService(const WorkerProcess& worker, int status);
  void LookAtLeader();

  void Refuse();
  void OnUpgradeAsked();
  void BeginUpgrade(HandoverMessage request);
  void OnCandidatePrepared();
  void OnCandidateGone(int status);
  void PromoteCandidate();
  void EndUpgrade(const char* answer, const std::string& sentence);
  void AskToLeave();

  const SupervisorOptions options_;
  std::optional<RequestSlots> slots_;
  KeptEntries kept_;
  OwnedFd signals_;
  PrivateSocket upgrades_;
  std::optional<HandoverChannel> asking_;  // has connected, and not said yet what it wants

  OwnedFd program_;           // what workers run
  OwnedFd previous_program_;  // until the new one has served
  std::optional<WorkerProcess> worker_;
  std::optional<Upgrade> upgrade_;
  std::optional<Refuser> refuser_;
  RestartPace pace_;
  std::string last_death_;
  TimePoint gone_at_;
  std::string news_;
  std::size_t refused_ = 0;

  bool ever_ready_ = false;
  bool announced_ = false;
  bool stopping_ = false;
  bool resting_ = false;
  bool leaving_ = false;
  bool refusing_ = false;
  bool leader_gone_ = false;
  std::optional<TimePoint> store_again_at_;  // nobody has the mount beside us
  Duration store_pause_{};
  std::string store_refusal_;  // what was said of it last
  std::optional<TimePoint> restart_at_;
  std::optional<TimePoint> terminate_at_;
  std::optional<TimePoint> kill_at_;  // the worker, when it has not done what it was told
  TimePoint next_look_;
  TimePoint fed_at_;
  std::optional<int> exit_code_;
};

}  // namespace forebay
