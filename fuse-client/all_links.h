#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/fuse_link_directory.h"
#include "fuse-client/link_mount.h"
#include "fuse-client/namespace_snapshot.h"

namespace forebay {

/// The `/` mount: every link that this client may see, each a directory with a mount of its own;
/// or the mount of a set, with its parts.
/// One thread, which serves no request, looks every two seconds which links there are, mounts the
/// new ones and takes down those that have gone. A link that is in use leaves the tree at once;
/// what is open goes on until it is closed, with what the kernel has of it.
class AllLinks {
 public:
  struct Parts {
    LinkMountShares links;
    NamespaceSource& source;    ///< Used on `control` only.
    asio::io_context& control;  ///< Run by another thread.
    std::stop_token stopping;
    std::string set = {};  ///< "" = every link.
    /// When everything of the mount has been unmounted by somebody else. Any thread.
    std::function<void()> on_ended;
  };

  AllLinks(Parts parts, std::string mountpoint, std::string device);
  ~AllLinks();
  AllLinks(const AllLinks&) = delete;
  AllLinks& operator=(const AllLinks&) = delete;

  /// `inherited` are the mounts that an earlier process made, the top among them: it goes on with
  /// them. Returns when all links of `first` that have a listing are mounted, or have failed to:
  /// one bad link does not keep the others away. A set is shown whole or not at all.
  Status Start(KnownLinks first, std::vector<InheritedMount> inherited);

  /// Unmounts all, waiting until `last_try` for those that are in use; then out of the tree.
  void Leave(Deadline last_try);
  /// After Leave: takes no more requests; true when nothing is under way any more.
  void BeginStop();
  /// A successor takes over: what is under way goes on, nothing more is taken.
  void StopTaking();
  bool Idle();
  void LogTotals() const;
  void SaveStats();

  std::size_t mounted() const { return mounted_; }

 private:
  Status MakeDirectory(const KnownLinks& first, std::optional<InheritedMount> inherited);
  void GoOnWith(std::vector<InheritedMount> inherited);
  Result<MountedNamespace> Obtain(const std::string& name);
  Status FindGeneration(InheritedMount& inherited);

  /// What stands between a link's name and its mount.
  struct Place {
    std::unique_ptr<LinkMount> mount;  ///< Null: somebody has unmounted it; it stays so.
    std::string id;                    ///< Of the link: a new one of the same name is another.
  };

  void Watch(const std::stop_token& stop);
  void Apply(const KnownLinks& known);
  void KeepFollowed(const Fence& fence);
  void MountLink(const proto::LinkState& link);
  void Follow(Place& place, const proto::LinkState& link);
  void TakeDown(Place& place, const std::string& name);
  void LookAfterTheLeaving();
  void Complain(const std::string& name, const std::string& message);
  /// Where a link is shown, by its name.
  std::string DirectoryOf(const std::string& name) const;
  bool IsOurs(const proto::LinkState& link) const;
  Status CheckWhole(const KnownLinks& first) const;
  /// What the set shows now, into its `.forebay/config`.
  void ShowConfig();

  Parts parts_;
  const std::string mountpoint_;
  const std::string device_;
  IoPool thread_;  // serves the directory
  std::unique_ptr<LinkDirectory> directory_;
  Uuid cluster_;
  Fence followed_;  // of the newest coordinator that said which links there are
  std::map<std::string, Place> places_;
  std::vector<std::unique_ptr<LinkMount>> leaving_;  // out of the tree, still in use
  std::map<std::string, std::string> complaints_;    // by link, so that each is made once
  std::atomic<std::size_t> mounted_{0};
  std::atomic<bool> directory_ended_{false};
  std::jthread watcher_;
};

}  // namespace forebay
