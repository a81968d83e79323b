#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/asio.h"
#include "common/base/result.h"
#include "fuse-client/file_reader.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/stats.h"

namespace forebay {

struct FuseSessionOptions {
  std::string source;  ///< Shown as the mount's device: "imagenet".
  std::string mountpoint;
  bool allow_other = false;
};

/// One mount in the kernel: an open /dev/fuse and the translation of its requests to a FileSystem
/// and a FileReader. It decides nothing but what the kernel may cache (DESIGN 6.1): names and
/// attributes for ever, since a changed object is another inode; no open, no opendir, no flush.
class FuseSession {
 public:
  /// Mounts, read-only. kInternal with the system's reason. `files` must outlive the session.
  static Result<std::unique_ptr<FuseSession>> Mount(FuseSessionOptions options, FileSystem& files);
  /// Ends the connection: what still uses the mount fails from then on. Leaving the mount point
  /// comes first (mountpoint.h). No FuseServer may be in use.
  ~FuseSession();
  FuseSession(const FuseSession&) = delete;
  FuseSession& operator=(const FuseSession&) = delete;

  /// Readable when a request waits or the mount has ended; non-blocking; owned by the session.
  int descriptor() const;

  /// What the kernel granted, as names: for `.forebay/config` and one log line. Known once the
  /// first request has been served.
  std::string Features() const;

 private:
  friend class FuseServer;
  struct Impl;
  explicit FuseSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Takes requests of a session off the kernel and answers them, on one worker's thread: metadata at
/// once, reads by a coroutine on the worker's context. One per worker.
class FuseServer {
 public:
  FuseServer(FuseSession& session, asio::io_context& context, FileReader& reader,
             WorkerStats& stats);
  ~FuseServer();
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;

  enum class Drained : std::uint8_t {
    kIdle,   ///< Nothing waits any more.
    kMore,   ///< `limit` requests were taken; more may wait.
    kEnded,  ///< The mount is gone; no request will come.
  };
  /// Only on the worker's thread.
  Drained Drain(std::size_t limit);

  /// Reads taken and not answered yet.
  std::size_t reads_in_flight() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
