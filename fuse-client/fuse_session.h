#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

// libfuse's own; only fuse_*.cc look inside.
struct fuse_buf;
struct fuse_lowlevel_ops;
struct fuse_session;

namespace forebay {

struct FuseSessionOptions {
  std::string source;  ///< Shown as the mount's device: "imagenet".
  std::string mountpoint;
  bool allow_other = false;
  /// False only where other mounts are to stand on its directories: fusermount3 refuses a place
  /// that the kernel calls read-only. Every operation that would write is refused all the same.
  bool read_only = true;
};

/// One mount in the kernel: an open /dev/fuse and libfuse's state for it.
class FuseSession {
 public:
  /// Mounts. kInternal with the system's reason. The operations get `context` from ContextOf; both
  /// outlive the session. `init` is the session's own.
  static Result<std::unique_ptr<FuseSession>> Mount(FuseSessionOptions options,
                                                    const ::fuse_lowlevel_ops& operations,
                                                    void* context = nullptr);
  /// Ends the connection: what still uses the mount fails from then on. Leaving the mount point
  /// comes first (mountpoint.h). Nobody may be draining it.
  ~FuseSession();
  FuseSession(const FuseSession&) = delete;
  FuseSession& operator=(const FuseSession&) = delete;

  /// Of what fuse_req_userdata answers.
  static void* ContextOf(void* userdata);

  /// Readable when a request waits or the mount has ended; non-blocking; owned by the session.
  int descriptor() const;
  ::fuse_session* handle() const;

  enum class Drained : std::uint8_t {
    kIdle,   ///< Nothing waits any more.
    kMore,   ///< `limit` requests were taken; more may wait.
    kEnded,  ///< The mount is gone; no request will come.
  };
  /// Takes requests off the kernel and has the operations answer them, on this thread. `buffer` is
  /// the caller's own, reused.
  Drained Drain(::fuse_buf& buffer, std::size_t limit);

  // What the kernel remembers, ended. Never from a thread that serves requests: the kernel makes
  // the caller wait for those that concern the node. Unknown names and nodes are no errors.

  /// The entry `name` of a directory, with all that is below it.
  void ForgetName(std::uint64_t parent, const std::string& name);
  /// A node's attributes, and a directory's list of entries.
  void ForgetNode(std::uint64_t nodeid);
  /// A node's attributes; a file's pages stay.
  void ForgetAttributes(std::uint64_t nodeid);

  /// What the kernel granted, as names: for `.forebay/config` and one log line. Known once the
  /// first request has been served.
  std::string Features() const;

 private:
  struct Impl;
  explicit FuseSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
