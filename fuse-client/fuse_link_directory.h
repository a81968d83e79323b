#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/asio.h"
#include "common/base/result.h"
#include "fuse-client/fuse_mount.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/inherited.h"

namespace forebay {

/// The root of a mount of several links: a file system of nothing but one empty directory for each
/// link, for the links' own mounts to stand on, and of a set its `.forebay/config`. Served by one
/// context, on which nobody may look at a path below the mount point: the answer would wait for
/// itself. That is why links are mounted and unmounted by a thread that serves no request.
class LinkDirectory {
 public:
  struct Options {
    FuseMountOptions mount;
    Uuid cluster;  ///< Whose links; for a successor, as the next.
    std::string cluster_dir;
    uid_t uid = 0;
    gid_t gid = 0;
    /// The owner may always write as far as modes go: fusermount3 asks for that before it mounts on
    /// a directory.
    mode_t mode = 0755;
  };

  /// Mounts, unless there is one that an earlier process has made. It keeps with `keeper` what its
  /// successor needs; `slots` are those of the thread of `context`. `on_ended` is called on
  /// `context` when the kernel has let go of the mount.
  struct Surroundings {
    asio::io_context& context;
    Keeper& keeper;
    SlotArena& slots;
    std::function<void()> on_ended;
  };
  static Result<std::unique_ptr<LinkDirectory>> Make(Options options, Surroundings surroundings,
                                                     std::optional<InheritedMount> inherited);
  /// `context` has been stopped.
  ~LinkDirectory();
  LinkDirectory(const LinkDirectory&) = delete;
  LinkDirectory& operator=(const LinkDirectory&) = delete;

  /// A directory that can be looked up and mounted on, and is not listed yet.
  void Add(const std::string& name);
  /// From now on it is listed.
  void Show(const std::string& name);
  /// It is no more, in the kernel's memory too.
  void Remove(const std::string& name);

  /// What `.forebay/config` says from now on. Like links' control files it can be looked up and is
  /// not listed.
  void SetConfig(std::string text);

  struct Impl;

 private:
  explicit LinkDirectory(std::unique_ptr<Impl> impl);
  Status MountAndKeep(const Options& options);
  void ForgetName(const std::string& name);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
