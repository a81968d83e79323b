#include "fuse-client/fuse_ops.h"

#include <sys/uio.h>
#include <sys/xattr.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <list>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/offload.h"
#include "common/model/limits.h"
#include "fuse-client/copies/link_copies.h"
#include "fuse-client/errno_map.h"
#include "fuse-client/fuse_api.h"
#include "fuse-client/fuse_kernel.h"
#include "fuse-client/process_files.h"

namespace forebay {

namespace {

/// A READ that has no answer yet, or whose reader has ended.
struct WaitingRead {
  fuse_req_t request;
  HeldRequest held;
  WorkerStats* stats;
  pid_t thread;
  bool has_waited = false;
  bool reader_ended = false;
};

/// Of one thread.
struct WaitingReads {
  std::list<WaitingRead> reads;
  bool watched = false;
};

}  // namespace

struct FuseServer::Impl {
  FuseSession* session;
  asio::io_context* context;
  FileReader* reader;
  WorkerStats* stats;
  FileSystem* files = nullptr;
  FilePlaces* places = nullptr;
  Offload* offload = nullptr;
  SlotArena* slots = nullptr;
  LinkCopies* copies = nullptr;
  RequestBuffer request;
  std::vector<char> directory;  // reply being packed, reused
  // Shared with the coroutines, which may outlive this object while their context ends.
  std::shared_ptr<std::size_t> reads = std::make_shared<std::size_t>(0);
  std::shared_ptr<WaitingReads> waiting = std::make_shared<WaitingReads>();
};

namespace {

/// Seconds. Names and attributes hold for the life of their inode; 31 years do not overflow the
/// kernel's arithmetic, as larger numbers have done.
constexpr double kForever = 1e9;

/// Seconds that a missing name is believed: an object may appear with a refresh (DESIGN 6.1).
constexpr double kNegativeTimeout = 1.0;

/// Attributes that are answered by name and not listed: they change with the cache, and would be
/// copied with a file by cp and rsync, to where they say nothing.
constexpr std::string_view kOwnerXattr = "user.forebay.owner";
constexpr std::string_view kCachedXattr = "user.forebay.cached";

/// How long the owners of a file are asked what they hold of it.
constexpr Duration kCachedPatience = std::chrono::seconds(2);

/// How often is looked whether who waits for data has been killed.
constexpr Duration kLookAtReadersEvery = std::chrono::milliseconds(500);

/// libfuse hands no context of ours to its callbacks but the session's, and every worker serves the
/// same session: the worker that is draining on this thread.
thread_local FuseServer::Impl* current_server = nullptr;

FuseServer::Impl& Server() { return *current_server; }

void ReplyError(fuse_req_t request, FuseOp op, int number) {
  Server().stats->CountOp(op, number);
  fuse_reply_err(request, number);
}

double TimeoutOf(const FileSystem::Node& node) { return node.lasting ? kForever : 0.0; }

fuse_entry_param EntryOf(const FileSystem::Node& node) {
  fuse_entry_param entry{};
  entry.ino = node.attributes.st_ino;
  entry.attr = node.attributes;
  entry.attr_timeout = TimeoutOf(node);
  entry.entry_timeout = TimeoutOf(node);
  return entry;
}

void ReplyNode(fuse_req_t request, WorkerStats& stats, const Result<FileSystem::Node>& node) {
  if (node) {
    const fuse_entry_param entry = EntryOf(*node);
    stats.CountOp(FuseOp::kLookup, 0);
    fuse_reply_entry(request, &entry);
    return;
  }
  const int number = ErrnoOf(node.error().code);
  stats.CountOp(FuseOp::kLookup, number);
  if (number != ENOENT) {
    fuse_reply_err(request, number);
    return;
  }
  // Inode 0 is "no such name, and you may remember that".
  fuse_entry_param missing{};
  missing.entry_timeout = kNegativeTimeout;
  fuse_reply_entry(request, &missing);
}

Task<void> ServeSlowLookup(fuse_req_t request, Offload* offload, FileSystem* files,
                           WorkerStats* stats, std::shared_ptr<std::size_t> in_flight,
                           HeldRequest held, std::uint64_t parent, std::string name) {
  const auto look = [files, parent, name] { return files->Lookup(parent, name); };
  const Result<FileSystem::Node> node = co_await offload->Run(look);
  --*in_flight;
  ReplyNode(request, *stats, node);
  held.Answered();
}

void OnLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const std::string_view text(name);
  if (text.size() > kMaxNameBytes) return ReplyError(request, FuseOp::kLookup, ENAMETOOLONG);
  FuseServer::Impl& server = Server();
  if (!server.files->IsSlow(parent, text)) {
    return ReplyNode(request, *server.stats, server.files->Lookup(parent, text));
  }
  ++*server.reads;
  Spawn(*server.context,
        ServeSlowLookup(request, server.offload, server.files, server.stats, server.reads,
                        server.slots->Hold(), parent, std::string(text)));
}

void OnGetattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info*) {
  const Result<FileSystem::Node> node = Server().files->GetAttr(inode);
  if (!node) return ReplyError(request, FuseOp::kGetattr, ErrnoOf(node.error().code));
  Server().stats->CountOp(FuseOp::kGetattr, 0);
  fuse_reply_attr(request, &node->attributes, TimeoutOf(*node));
}

/// Packs entries into a reply until it is full.
class DirectoryPacker final : public FileSystem::EntryVisitor {
 public:
  DirectoryPacker(fuse_req_t request, std::vector<char>& reply, std::size_t size, bool plus)
      : request_(request), reply_(reply), size_(size), plus_(plus) {
    if (reply_.size() < size) reply_.resize(size);
  }

  bool Visit(const FileSystem::Entry& entry) override {
    name_.assign(entry.name);
    const std::size_t room = size_ - used_;
    const std::size_t needed = plus_ ? AddPlus(entry, room) : Add(entry, room);
    if (needed > room) return false;
    used_ += needed;
    return true;
  }

  std::size_t used() const { return used_; }

 private:
  std::size_t Add(const FileSystem::Entry& entry, std::size_t room) {
    return fuse_add_direntry(request_, reply_.data() + used_, room, name_.c_str(),
                             &entry.node.attributes, static_cast<off_t>(entry.next));
  }

  std::size_t AddPlus(const FileSystem::Entry& entry, std::size_t room) {
    fuse_entry_param param = EntryOf(entry.node);
    // The kernel counts a lookup for every entry with an inode: none for "." and "..", which it
    // knows, none for control files, which are made by a real lookup only, and none where it holds
    // so many that it only gets names.
    if (name_ == "." || name_ == ".." || !Server().files->MayPrime(entry.node)) param.ino = 0;
    return fuse_add_direntry_plus(request_, reply_.data() + used_, room, name_.c_str(), &param,
                                  static_cast<off_t>(entry.next));
  }

  fuse_req_t request_;
  std::vector<char>& reply_;
  const std::size_t size_;
  const bool plus_;
  std::size_t used_ = 0;
  std::string name_;
};

void ReplyDirectory(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                    FuseOp op) {
  FuseServer::Impl& server = Server();
  DirectoryPacker packer(request, server.directory, size, op == FuseOp::kReaddirplus);
  const Status read = server.files->ReadDir(inode, static_cast<std::uint64_t>(offset), packer);
  if (!read) return ReplyError(request, op, ErrnoOf(read.error().code));
  server.stats->CountOp(op, 0);
  fuse_reply_buf(request, server.directory.data(), packer.used());
}

void OnReaddir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
               struct fuse_file_info*) {
  ReplyDirectory(request, inode, size, offset, FuseOp::kReaddir);
}

void OnReaddirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                   struct fuse_file_info*) {
  ReplyDirectory(request, inode, size, offset, FuseOp::kReaddirplus);
}

void OnStatfs(fuse_req_t request, fuse_ino_t) {
  const struct statvfs totals = Server().files->StatFs();
  Server().stats->CountOp(FuseOp::kStatfs, 0);
  fuse_reply_statfs(request, &totals);
}

// getxattr(2) and listxattr(2): size 0 asks how much room is needed.
void ReplyXattr(fuse_req_t request, FuseOp op, WorkerStats& stats, const Result<std::string>& value,
                std::size_t size) {
  int number = 0;
  if (!value) {
    const Code code = value.error().code;
    number = code == Code::kNotFound ? ENODATA : ErrnoOf(code);
  } else if (size != 0 && size < value->size()) {
    number = ERANGE;
  }
  stats.CountOp(op, number);
  if (number != 0) {
    fuse_reply_err(request, number);
  } else if (size == 0) {
    fuse_reply_xattr(request, value->size());
  } else {
    fuse_reply_buf(request, value->data(), value->size());
  }
}

Task<void> ServeCached(fuse_req_t request, FilePlaces* places, WorkerStats* stats,
                       std::shared_ptr<std::size_t> in_flight, HeldRequest held,
                       FileSystem::Content file, std::size_t size) {
  const Deadline deadline = Deadline::After(kCachedPatience);
  const Result<std::string> value = co_await places->Cached(std::move(file), deadline);
  --*in_flight;
  ReplyXattr(request, FuseOp::kGetxattr, *stats, value, size);
  held.Answered();
}

// Where the file's blocks are is not in the listing: the ring and the nodes say it.
void OnPlaceXattr(fuse_req_t request, fuse_ino_t inode, std::string_view name, std::size_t size) {
  FuseServer::Impl& server = Server();
  Result<FileSystem::Content> file = server.files->ContentOf(inode);
  if (!file || file->bytes) return ReplyError(request, FuseOp::kGetxattr, ENODATA);
  if (name == kOwnerXattr) {
    return ReplyXattr(request, FuseOp::kGetxattr, *server.stats, server.places->Owners(*file),
                      size);
  }
  ++*server.reads;
  Spawn(*server.context, ServeCached(request, server.places, server.stats, server.reads,
                                     server.slots->Hold(), std::move(*file), size));
}

void OnGetxattr(fuse_req_t request, fuse_ino_t inode, const char* name, std::size_t size) {
  const std::string_view text(name);
  if (text == kOwnerXattr || text == kCachedXattr) {
    return OnPlaceXattr(request, inode, text, size);
  }
  ReplyXattr(request, FuseOp::kGetxattr, *Server().stats, Server().files->GetXattr(inode, text),
             size);
}

void OnListxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) {
  ReplyXattr(request, FuseOp::kListxattr, *Server().stats, Server().files->ListXattr(inode), size);
}

void OnForget(fuse_req_t request, fuse_ino_t inode, std::uint64_t) {
  Server().files->Forget(inode);
  Server().stats->CountOp(FuseOp::kForget, 0);
  fuse_reply_none(request);
}

void OnForgetMulti(fuse_req_t request, std::size_t count, struct fuse_forget_data* forgets) {
  for (std::size_t i = 0; i < count; ++i) Server().files->Forget(forgets[i].ino);
  Server().stats->CountOp(FuseOp::kForget, 0);
  fuse_reply_none(request);
}

// libfuse 3.14 knows neither the flag nor the field.
void OpenWithCopies(fuse_req_t request, fuse_ino_t inode) {
  const Result<LinkCopies::Opened> opened =
      Server().copies->Open(inode, FuseSession::CurrentRequest());
  if (!opened) return ReplyError(request, FuseOp::kOpen, ErrnoOf(opened.error().code));
  Server().stats->CountOp(FuseOp::kOpen, 0);
  FuseOpenAnswer answer{.handle = opened->handle, .flags = FOPEN_DIRECT_IO, .backing_id = 0};
  if (opened->backing != 0) {
    answer.flags = kFuseOpenPassthrough;
    answer.backing_id = opened->backing;
  }
  const int sent = fuse_reply_buf(request, reinterpret_cast<const char*>(&answer), sizeof answer);
  // Whoever asked was interrupted and has gone: there will be no RELEASE.
  if (sent == -ENOENT) Server().copies->Close(opened->handle);
}

// ENOSYS is "never ask again, treat it as done": one message a file less each (DESIGN 6.1). The
// kernel then keeps pages and directories cached as with keep_cache and cache_readdir. Only a large
// mount needs the message: to say that the file is read past the page cache, or by the kernel
// itself from a copy; and kernels that would tell programs so. No handle has a state here but that.
void OnOpen(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info* file) {
  FuseServer::Impl& server = Server();
  const bool direct = server.session->DirectReads();
  if (!direct && !server.session->NeedsOpen()) return ReplyError(request, FuseOp::kOpen, ENOSYS);
  if (direct && server.copies != nullptr) return OpenWithCopies(request, inode);
  server.stats->CountOp(FuseOp::kOpen, 0);
  file->direct_io = direct ? 1 : 0;
  file->keep_cache = direct ? 0 : 1;
  fuse_reply_open(request, file);
}
void OnRelease(fuse_req_t request, fuse_ino_t, struct fuse_file_info* file) {
  if (Server().copies != nullptr) Server().copies->Close(file->fh);
  ReplyError(request, FuseOp::kRelease, 0);
}
void OnOpendir(fuse_req_t request, fuse_ino_t, struct fuse_file_info* file) {
  const FuseSession& session = *Server().session;
  if (!session.NeedsOpendir()) return ReplyError(request, FuseOp::kOpendir, ENOSYS);
  Server().stats->CountOp(FuseOp::kOpendir, 0);
  file->keep_cache = 1;
  file->cache_readdir = session.CachesDirectories() ? 1 : 0;
  fuse_reply_open(request, file);
}
void OnFlush(fuse_req_t request, fuse_ino_t, struct fuse_file_info*) {
  ReplyError(request, FuseOp::kFlush, ENOSYS);
}

void RefuseWrite(fuse_req_t request) { ReplyError(request, FuseOp::kWrite, EROFS); }

void ReplySlices(fuse_req_t request, const std::vector<Slice>& slices) {
  if (slices.size() == 1) {
    const ByteView bytes = slices.front().bytes;
    fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return;
  }
  std::vector<iovec> pieces;
  pieces.reserve(slices.size());
  for (const Slice& slice : slices) {
    pieces.push_back({const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size()});
  }
  fuse_reply_iov(request, pieces.data(), static_cast<int>(pieces.size()));
}

/// Who reads past the page cache waits in the kernel for the answer itself, and once the request
/// has been taken not even SIGKILL ends that (fs/fuse/dev.c, request_wait_answer): the kernel tells
/// of the signal, once, and waits on. A reader that is to end is therefore told EINTR, which it
/// does not live to see; one whose signal has a handler is left to wait.
Task<void> WatchReaders(std::shared_ptr<WaitingReads> waiting) {
  const ProcessFiles processes;
  do {
    co_await SleepFor(kLookAtReadersEvery);
    for (WaitingRead& read : waiting->reads) {
      const bool old = std::exchange(read.has_waited, true) && !read.reader_ended;
      if (!old || fuse_req_interrupted(read.request) == 0 || !processes.IsDying(read.thread)) {
        continue;
      }
      read.reader_ended = true;
      read.stats->CountOp(FuseOp::kRead, EINTR);
      fuse_reply_err(read.request, EINTR);
      read.held.Answered();
    }
  } while (!waiting->reads.empty());
  waiting->watched = false;
}

Task<void> ServeRead(fuse_req_t request, FileReader* reader, WorkerStats* stats,
                     std::shared_ptr<std::size_t> reads, std::shared_ptr<WaitingReads> waiting,
                     HeldRequest held, std::uint64_t inode, std::uint64_t offset, std::size_t size,
                     pid_t thread) {
  const auto place = waiting->reads.insert(
      waiting->reads.end(), {.request = request, .held = held, .stats = stats, .thread = thread});
  const Result<std::vector<Slice>> slices = co_await reader->Read(inode, offset, size, thread);
  --*reads;
  const bool reader_ended = place->reader_ended;
  waiting->reads.erase(place);
  if (reader_ended) co_return;
  if (!slices) {
    const int number = ErrnoOf(slices.error().code);
    stats->CountOp(FuseOp::kRead, number);
    fuse_reply_err(request, number);
    held.Answered();
    co_return;
  }
  stats->CountOp(FuseOp::kRead, 0);
  ReplySlices(request, *slices);
  held.Answered();
}

void OnRead(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
            struct fuse_file_info*) {
  FuseServer::Impl& server = Server();
  ++*server.reads;
  Spawn(*server.context,
        ServeRead(request, server.reader, server.stats, server.reads, server.waiting,
                  server.slots->Hold(), inode, static_cast<std::uint64_t>(offset), size,
                  fuse_req_ctx(request)->pid));
  if (!std::exchange(server.waiting->watched, true)) {
    Spawn(*server.context, WatchReaders(server.waiting));
  }
}

struct fuse_lowlevel_ops MakeOperations() {
  struct fuse_lowlevel_ops ops{};
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.getattr = OnGetattr;
  ops.open = OnOpen;
  ops.release = OnRelease;
  ops.read = OnRead;
  ops.flush = OnFlush;
  ops.opendir = OnOpendir;
  ops.readdir = OnReaddir;
  ops.readdirplus = OnReaddirplus;
  ops.statfs = OnStatfs;
  ops.getxattr = OnGetxattr;
  ops.listxattr = OnListxattr;
  WriteOperations<RefuseWrite>::AddTo(ops);
  return ops;
}

}  // namespace

const struct fuse_lowlevel_ops& FuseServer::Operations() {
  static const struct fuse_lowlevel_ops operations = MakeOperations();
  return operations;
}

FuseServer::FuseServer(Parts parts) : impl_(std::make_unique<Impl>()) {
  impl_->session = &parts.session;
  impl_->context = &parts.context;
  impl_->reader = &parts.reader;
  impl_->files = &parts.files;
  impl_->places = &parts.places;
  impl_->offload = &parts.offload;
  impl_->stats = &parts.stats;
  impl_->slots = &parts.slots;
  impl_->copies = parts.copies;
}

FuseServer::~FuseServer() = default;

std::size_t FuseServer::in_flight() const { return *impl_->reads; }

FuseSession::Drained FuseServer::Drain(std::size_t limit) {
  current_server = impl_.get();
  return impl_->session->Drain(*impl_->slots, impl_->request, limit);
}

void FuseServer::TakeOver() {
  current_server = impl_.get();
  impl_->session->TakeOver(*impl_->slots);
}

}  // namespace forebay
