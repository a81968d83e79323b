#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/fence.h"
#include "common/model/object_version.h"
#include "common/snapshot/snapshot.h"
#include "fuse-client/snapshot_fetcher.h"
#include "fuse-client/supervisor/owned_fd.h"
#include "proto/coordinator.pb.h"

namespace forebay {

class CallHandle;

struct NamespaceOptions {
  std::string state_dir;
  std::vector<std::string> coordinators;  ///< "host:port", asked in this order.
  Duration call_timeout = kSilence;       ///< For one answer of one coordinator.
  Duration retry_pause = std::chrono::milliseconds(500);
  Duration message_every = std::chrono::seconds(10);  ///< "still waiting", in the log.
  /// Called at once, and once, when something has to be waited for: what it is and how long.
  std::function<void(const std::string& sentence)> tell_waiting = {};
};

/// A link as a mount needs it.
struct MountedNamespace {
  Uuid cluster;
  proto::LinkState link;
  std::shared_ptr<const Snapshot> snapshot;
  std::string cluster_dir;  ///< state_dir/<cluster>
  /// No coordinator answered, or it has lost the listing; this is the last known generation.
  bool from_disk = false;
  /// The snapshot's, where it is not the one of this generation in FolderOf (shard_view.h).
  std::shared_ptr<const OwnedFd> file = nullptr;
  std::uint64_t link_blocks = 0;  ///< Of the whole link, where the snapshot is a part; else 0.
};

/// Whether `offered` is a later generation of the link that `shown` is. An earlier one is what a
/// coordinator has that was started from an old copy of its state; a restored one begins above all
/// that the lost one can have counted up to (coordinator/state_backup.h).
bool IsLater(const proto::LinkState& offered, const proto::LinkState& shown);

/// <cluster>/<link> below the state directory.
std::string FolderOf(const MountedNamespace& found);

/// What links there are, or a set's.
struct KnownLinks {
  Uuid cluster;
  std::vector<proto::LinkState> links;
  std::string cluster_dir;  ///< state_dir/<cluster>
  bool from_disk = false;   ///< No coordinator answered; these are those mounted before.
  Fence fence = {};         ///< Of who says it; epoch 0: a release that did not say it.
  std::uint64_t links_version = 0;
};

/// What who takes over what `said` says has heard of: who said it, and that it has shown this.
Fence HeardFrom(const KnownLinks& said);

/// Whether what `said` does not name has gone, for who shows links that the coordinator `shown`
/// has named. One whose state is empty, until a backup is restored, does not know; nor does one
/// that was replaced, or was started from an old copy of its state.
bool TellsWhatHasGone(const Fence& shown, const KnownLinks& said);

/// Obtains a link's namespace: as the coordinator announces it, its snapshot brought here by a
/// SnapshotFetcher unless its very bytes are on disk already, and from disk alone where no
/// coordinator answers, or where its listing is lost and being made anew. On disk, under state_dir:
///
///     <cluster>/coordinators          addresses that this cluster was reached by, one a line
///     <cluster>/ring.bin              RingView's
///     <cluster>/<link>/link.pb        GetLinksReply with this link, of the generation beside it
///     <cluster>/<link>/<n>.fbs        the snapshot of generation n
///     <cluster>/<link>/errors-<hash>  ErrorLog's, of the mount point with this hash; these alone
///                                     stay, for a month, when another link has the name
///
/// Every file is committed by rename, the snapshot before the link.pb that names it. Runs on the
/// context of `pool`.
class NamespaceSource {
 public:
  NamespaceSource(SnapshotFetcher::Parts parts, NamespaceOptions options)
      : pool_(parts.pool),
        options_(std::move(options)),
        fetcher_(std::move(parts),
                 {.call_timeout = options_.call_timeout, .retry_pause = options_.retry_pause}) {}

  /// Waits for a coordinator, and for the first listing of the link, until `deadline`, where
  /// nothing is on disk of this very link. kNotFound: the coordinator knows no such link (its
  /// message names the nearest). kUnavailable: nobody answered and there is nothing on disk.
  /// kInvalid: the listing failed. kInternal: the state directory.
  Task<Result<MountedNamespace>> Obtain(std::string link, Deadline deadline);

  /// What the coordinator is told of this mount with every question from now on; before that it is
  /// told that it is not mounted yet.
  void Introduce(proto::MountSelf self) { self_ = std::move(self); }

  /// The newest coordinator that has named the link, as far as it is on disk; epoch 0: none is. Any
  /// thread; reads small files.
  Fence HeardOf(const std::string& link) const;

  /// Every link that this client may see, by one round over the coordinators; with a name that
  /// link, or the parts of that set (link_set.h). kUnavailable: none answered; kNotFound: there is
  /// nothing of that name.
  Task<Result<KnownLinks>> Links(std::string name = "");
  /// The same, waiting for a coordinator until `deadline` unless such links were mounted before and
  /// are on disk, and for the first listing of each part of a set that is not on disk either.
  Task<Result<KnownLinks>> WaitForLinks(std::string name, Deadline deadline);

 private:
  struct Answer {
    proto::GetLinksReply reply;
    std::string coordinator;
  };
  /// kUnavailable also of a coordinator whose state is empty where links of its cluster are on disk
  /// here: it waits for its backup.
  Status CheckKnowing(const Answer& answer);
  Task<Status> CheckGone(std::string coordinator, std::string link);
  /// "" = all links.
  Task<Result<Answer>> AskForLinks(std::string link);
  Task<Result<Answer>> AskAt(std::string coordinator, std::string link, CallHandle* call);
  /// What is on disk of clusters that our coordinators led to; until `visit` answers false.
  void ForEachOnDisk(const std::function<bool(const std::string& folder,
                                              const proto::GetLinksReply& reply)>& visit) const;
  Task<Result<Answer>> AskForLink(std::string link);
  Result<KnownLinks> LinksOnDisk(const std::string& name) const;
  Task<Result<MountedNamespace>> FromCoordinator(Answer answer);
  struct KeptLink {
    std::string folder;
    proto::GetLinksReply reply;
  };
  std::optional<KeptLink> FindOnDisk(const std::string& name, const std::string& id) const;
  static Result<MountedNamespace> FromDisk(const KeptLink& kept, const std::string& why);
  std::string UnlistedPart(const KnownLinks& known, const std::string& name) const;
  void Remember(const MountedNamespace& found) const;
  void SayWaiting(const std::string& what, Deadline deadline, TimePoint* next);

  ClientPool& pool_;
  const NamespaceOptions options_;
  SnapshotFetcher fetcher_;
  proto::MountSelf self_;
  std::string led_;  // the coordinator that answered last
  bool said_empty_ = false;
  bool told_waiting_ = false;
};

}  // namespace forebay
