#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/config/mount_config.h"
#include "common/wire/client_pool.h"
#include "common/wire/peer_health.h"
#include "fuse-client/copies/link_copies.h"
#include "fuse-client/error_log.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/inherited.h"
#include "fuse-client/job_table.h"
#include "fuse-client/link_presence.h"
#include "fuse-client/manifest.h"
#include "fuse-client/mount_metrics.h"
#include "fuse-client/mountpoint.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/order/local_socket.h"
#include "fuse-client/order/order_book.h"
#include "fuse-client/order/order_runner.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"
#include "fuse-client/stream_table.h"
#include "fuse-client/worker.h"

namespace forebay {

/// What the links of one process have in common; each part outlives them and is thread-safe, but
/// for the pools, of which thread i uses the i-th.
struct LinkMountShares {
  const MountConfig& config;
  std::string host_id;
  asio::io_context& control;  ///< For what may block a little; run by one thread of its own.
  Offload& offload;
  IoPool& threads;  ///< Running.
  const std::vector<std::unique_ptr<ClientPool>>& pools;
  RingView& ring;
  RingRefresher& refresher;
  PeerHealth& health;
  NodePace& pace;
  NetworkPace& bandwidth;
  JobTable& jobs;
  MountMetrics& metrics;
  MemoryBudget& memory;      ///< For reads that are under way.
  PassedSegments* segments;  ///< Null: all bytes come over sockets.
  LocalSocket& local_socket;
  KernelInodeTotal& kernel_inodes;
  Keeper& keeper;                 ///< With an arena for each of `threads`.
  LocalCopies* copies = nullptr;  ///< Null: there is no folder for them.
};

/// One link, or a directory of it, on one mount point: its files, its session with the kernel, a
/// worker on each thread. Its calls come from one thread at a time, which is none of the workers'.
///
///     Start() → serving → TryLeave() or Detach(), or somebody unmounts it: ended()
///             → BeginStop() → Idle() → destruction
class LinkMount {
 public:
  struct Place {
    std::string sub_path;    ///< "" = the link's root.
    std::string mountpoint;  ///< Absolute.
    std::string device;      ///< As the mount table shows it.
  };

  /// `on_ended` is called, on a worker's thread, when the kernel has let go of the mount.
  LinkMount(LinkMountShares shares, MountedNamespace found, Place place,
            std::function<void()> on_ended);
  /// Goes on with a mount that an earlier process made; it has a generation.
  LinkMount(LinkMountShares shares, InheritedMount inherited, std::function<void()> on_ended);
  /// The workers are idle, or their threads have been stopped.
  ~LinkMount();
  LinkMount(const LinkMount&) = delete;
  LinkMount& operator=(const LinkMount&) = delete;

  /// Returns when a program that looks gets an answer. kNotFound, kInvalid: the link has no such
  /// directory. After an error Detach() and the rest of the way down are due all the same.
  Status Start();

  /// The coordinator's `link` has a later generation than the mount shows, which it could show.
  bool IsBehind(const proto::LinkState& link) const;
  /// What the coordinator says of the link beside its generation: from where blocks are read.
  void Heed(const proto::LinkState& link);
  /// What the coordinator says of the link itself. While it is not there, reads of what the kernel
  /// does not have end with kStale. Any thread, after Start.
  void SetPresence(LinkPresence::State state);
  LinkPresence::State presence() const { return presence_->state(); }
  /// `found` with what this mount is to show of it. Blocks; any thread.
  Result<MountedNamespace> ShardOf(Result<MountedNamespace> found) const;
  /// Shows the generation of `next`, and has the kernel forget what changed; that ends early when
  /// `stop` is requested. Not from a thread that serves requests. A generation without the
  /// directory that is mounted is not shown.
  void Follow(MountedNamespace next, const std::stop_token& stop);

  /// The kernel has let go of it, or never had it: nobody uses it any more.
  bool ended() const { return ended_ || !session_; }
  Unmounted TryLeave();
  /// Out of the tree at once. What programs have open goes on until BeginStop().
  void Detach();
  /// Takes no more requests; reads under way end at their next failure.
  void BeginStop();
  /// Takes no more requests; what is under way goes on. A successor will have the rest.
  void StopTaking();
  /// After BeginStop(): true when nothing is under way any more. Asks the threads, and waits for
  /// their answers.
  bool Idle();
  /// A successor finds it still in use, and not in the tree.
  void MarkLeaving();
  /// What a successor goes on counting from.
  void SaveStats();
  /// The last: one line of what it did, and its errors on disk.
  void LogTotals() const;

  /// Changed by Follow.
  const MountedNamespace& found() const { return namespace_; }
  const std::string& mountpoint() const { return place_.mountpoint; }

 private:
  /// Of the generation that is shown.
  struct Texts {
    std::shared_ptr<LargeText> manifest;
    std::shared_ptr<LargeText> attributes;
  };

  void ChooseMode();
  static Place PlaceOf(const proto::KeptMount& mount);
  void KeepErrors();
  std::uint64_t Announce(const GenerationView& before, const std::stop_token& stop);
  Texts MakeTexts() const;
  Status MakeFileSystem();
  Status MakeFilesOf(std::vector<MountedNamespace> generations);
  proto::KeptMount Description() const;
  Status MountAndKeep();
  void TellJobs() const;
  Status Serve();
  void KeepShown(const GenerationView& before);
  void RestoreOrders();
  void BeginOrders();
  void PrepareCopies();
  void BeginCopies();
  Result<std::size_t> TakeOrder(const OrderText& text);
  WorkerOptions OptionsOfWorkers() const;
  MountedNamespace Now() const;
  std::string RenderConfig() const;
  std::string RenderStats() const;
  Result<Slice> Render(std::shared_ptr<LargeText> Texts::* which);

  const LinkMountShares shares_;
  const std::shared_ptr<std::atomic<std::uint32_t>> replicas_ =
      std::make_shared<std::atomic<std::uint32_t>>(1);
  mutable std::mutex mutex_;    // Follow's changes against those who render control files
  MountedNamespace namespace_;  // guarded by mutex_ but for the thread of Follow
  Texts texts_;                 // guarded by mutex_
  std::uint64_t refused_generation_ = 0;
  const std::string name_;
  const std::shared_ptr<LinkPresence> presence_ = std::make_shared<LinkPresence>(name_);
  const Place place_;
  const std::function<void()> on_ended_;

  MountStats stats_;
  // Shared with the coroutine that writes it.
  const std::shared_ptr<ErrorLog> errors_ = std::make_shared<ErrorLog>();
  StreamTable streams_;
  std::optional<InheritedMount> inherited_;  // until Start
  std::shared_ptr<const GenerationView> unannounced_;
  bool large_ = false;                      // for the life of the mount
  std::uint32_t connection_ = 0;            // 0 = not mounted
  std::atomic<unsigned> read_ahead_kb_{0};  // 0: not known
  OwnedFd fd_;                              // until the session has it
  std::string kept_stats_;
  std::shared_ptr<KernelInodes> kernel_inodes_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<FuseSession> session_;
  std::unique_ptr<LinkCopies> copies_;  // null: not asked for
  OrderBook orders_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<OrderRunner> order_runner_;  // while requests are taken
  std::map<std::string, std::size_t> kept_positions_;
  std::atomic<bool> ended_{false};
};

}  // namespace forebay
