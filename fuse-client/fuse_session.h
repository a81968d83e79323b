#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"
#include "fuse-client/supervisor/request_slots.h"

// libfuse's own; only fuse_*.cc look inside.
struct fuse_lowlevel_ops;
struct fuse_session;

namespace forebay {

/// What a request that is too long for its slot is read into; one for each thread.
class RequestBuffer {
 public:
  RequestBuffer();
  std::byte* rest() { return bytes_.get() + RequestSlot::kRequestBytes; }
  std::size_t rest_size() const;
  /// The whole of a request whose beginning is in `slot`.
  std::byte* Whole(const RequestSlot& slot);

 private:
  std::unique_ptr<std::byte[]> bytes_;  // touched by long requests only
};

/// A mount in the kernel, and what its server has to know of it.
struct FuseConnection {
  OwnedFd fd;            ///< /dev/fuse, non-blocking.
  std::uint32_t id = 0;  ///< In the slots of its requests.
  /// The kernel's first message, when an earlier process has answered it: what was agreed then
  /// holds for the life of the mount, and the kernel does not say it again.
  std::string first_message;
  /// Files are to be read past the page cache, where the kernel can do that and map them.
  bool large = false;
  /// And files that were opened are to be read by the kernel itself where they have a copy.
  bool passthrough = false;
  /// Called with that message before it is answered for the first time.
  std::function<void(std::string_view)> keep_first_message;
};

/// One mount in the kernel: an open /dev/fuse and libfuse's state for it.
class FuseSession {
 public:
  /// The operations get `context` from ContextOf; both outlive the session. `init` is the session's
  /// own. Where the connection comes from another process, the kernel is asked to hand out again
  /// what that has not answered; where the kernel cannot, TakeOver does it.
  static Result<std::unique_ptr<FuseSession>> Serve(FuseConnection connection,
                                                    const ::fuse_lowlevel_ops& operations,
                                                    void* context = nullptr);
  /// When nobody else has /dev/fuse open, what still uses the mount fails from then on. Leaving the
  /// mount point comes first (mountpoint.h). Nobody may be draining it.
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
    kFull,   ///< All slots are in use; some requests must be answered first.
    kEnded,  ///< The mount is gone; no request will come.
  };
  /// Takes requests off the kernel and has the operations answer them, on this thread, to which
  /// `slots` and `buffer` belong. A request occupies a slot until the operation has returned, or
  /// what it held on to was answered.
  Drained Drain(SlotArena& slots, RequestBuffer& buffer, std::size_t limit);
  /// Deals with what an earlier process has left in this thread's slots; once, on this thread.
  void TakeOver(SlotArena& slots);

  // What the kernel remembers, ended. Never from a thread that serves requests: the kernel makes
  // the caller wait for those that concern the node. Unknown names and nodes are no errors.

  /// The entry `name` of a directory, with all that is below it.
  void ForgetName(std::uint64_t parent, const std::string& name);
  /// A node's attributes, and a directory's list of entries.
  void ForgetNode(std::uint64_t nodeid);
  /// A node's attributes; a file's pages stay.
  void ForgetAttributes(std::uint64_t nodeid);

  /// Files are to be opened, for reads past the page cache. Known as soon as Features are.
  bool DirectReads() const;
  /// Opened files can be given backing files; known with Features, too.
  bool Passthrough() const;
  /// Registers an open file that the kernel may read an opened one's bytes from; answers its
  /// number, more than 0, which outlives this process with the mount. kDenied: without
  /// CAP_SYS_ADMIN. kInternal with the reason.
  Result<std::int32_t> OpenBacking(int fd) const;
  /// No more files are opened with it; those that were read on.
  void CloseBacking(std::int32_t backing) const;
  /// The number of the request that is processed on this thread: its own for the life of the mount,
  /// also when it is handed out again.
  static std::uint64_t CurrentRequest();
  /// The kernel tells programs of an OPEN that is answered "no such operation", where others take
  /// it as "never ask again"; likewise of an OPENDIR (before Linux 5.1).
  bool NeedsOpen() const;
  bool NeedsOpendir() const;
  /// An opened directory's list of entries may stay in the kernel.
  bool CachesDirectories() const;
  /// Puts the whole content of a file into the kernel's page cache. Never from a thread that serves
  /// requests, as above. False: the kernel has no inode of it, or the mount has gone.
  bool Store(std::uint64_t nodeid, const std::vector<Slice>& content);

  /// What the kernel granted, as names: for `.forebay/config` and one log line. Known once the
  /// first request has been served.
  std::string Features() const;

 private:
  struct Impl;
  void Process(SlotArena& slots, RequestSlot& slot, std::byte* request, std::size_t size);
  void Replay(SlotArena& slots, RequestSlot& slot);
  explicit FuseSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
