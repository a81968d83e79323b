#pragma once

#include <boost/asio/io_context.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "fuse-client/link_mount.h"
#include "fuse-client/namespace_snapshot.h"

namespace forebay {

/// Keeps a mount at its link's newest generation: a thread of its own, which serves no request,
/// asks the coordinator every two seconds. While no coordinator answers the mount stays as it is.
class LinkFollower {
 public:
  struct Parts {
    LinkMount& mount;
    NamespaceSource& source;    ///< Used on `control` only.
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

  Parts parts_;
  std::jthread thread_;
};

}  // namespace forebay
