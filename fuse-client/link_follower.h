#pragma once

#include <boost/asio/io_context.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "common/model/fence.h"
#include "fuse-client/link_mount.h"
#include "fuse-client/namespace_snapshot.h"

namespace forebay {

/// Keeps a mount at its link's newest generation: a thread of its own, which serves no request,
/// asks the coordinator every two seconds. While no coordinator answers the mount stays as it is.
/// Tells the mount when its link has gone, too: a link of the same name that was made since is
/// another one, with other inodes and blocks, and is not shown in its place.
class LinkFollower {
 public:
  struct Parts {
    LinkMount& mount;
    NamespaceSource& source;    ///< Its questions are asked on `control` only.
    asio::io_context& control;  ///< Run by another thread.
    std::stop_token stopping;
  };
  explicit LinkFollower(Parts parts);
  /// Waits for the thread, a second at most.
  ~LinkFollower() = default;
  LinkFollower(const LinkFollower&) = delete;
  LinkFollower& operator=(const LinkFollower&) = delete;

 private:
  void Watch(const std::stop_token& stop);
  void Look(const std::stop_token& stop);
  const proto::LinkState* NoteWhatIsThere(const KnownLinks& known);

  Parts parts_;
  Fence followed_;  // of the newest coordinator that had the link
  std::jthread thread_;
};

}  // namespace forebay
