#pragma once

#include <cstddef>
#include <memory>

#include "common/base/asio.h"
#include "common/base/result.h"
#include "fuse-client/file_places.h"
#include "fuse-client/file_reader.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/stats.h"

namespace forebay {

class LinkCopies;
class Offload;

/// The translation of the kernel's requests to a FileSystem and a FileReader, on one worker's
/// thread: metadata at once, what has to wait by a coroutine on the worker's context. It decides
/// nothing but what the kernel may cache (DESIGN 6.1): names and attributes for ever, since a
/// changed object is another inode; no open, no opendir, no flush. One per worker; all of a link
/// share its session.
class FuseServer {
 public:
  struct Parts {
    FuseSession& session;
    asio::io_context& context;
    FileReader& reader;
    FileSystem& files;
    FilePlaces& places;
    Offload& offload;
    WorkerStats& stats;
    SlotArena& slots;              ///< The worker's thread's.
    LinkCopies* copies = nullptr;  ///< Null: every read is a message.
  };
  explicit FuseServer(Parts parts);
  ~FuseServer();
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;

  /// What a session that FuseServers are to drain is mounted with.
  static const ::fuse_lowlevel_ops& Operations();

  /// Only on the worker's thread: what an earlier process left of the session's requests in the
  /// thread's slots. Once.
  void TakeOver();
  /// Only on the worker's thread.
  FuseSession::Drained Drain(std::size_t limit);

  /// Requests taken and not answered yet: reads, and the few others that wait for somebody.
  std::size_t in_flight() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
