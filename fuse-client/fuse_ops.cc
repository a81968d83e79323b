#include "fuse-client/fuse_ops.h"

// The interface of libfuse 3.12, which 3.14 (Debian 12) and 3.17 (Debian 13) both have.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/model/limits.h"
#include "fuse-client/errno_map.h"

namespace forebay {

/// Declared here because it holds libfuse's receive buffer.
struct FuseServer::Impl {
  FuseSession* session;
  asio::io_context* context;
  FileReader* reader;
  WorkerStats* stats;
  FileSystem* files = nullptr;
  struct fuse_buf request{};
  std::vector<char> directory;  // reply being packed, reused
  // Shared with the reads, which may outlive this object while their context ends.
  std::shared_ptr<std::size_t> reads = std::make_shared<std::size_t>(0);
};

namespace {

/// Written when the kernel opens the conversation, on whichever worker takes that message.
struct GrantedFeatures {
  std::mutex mutex;
  std::string names;
};

}  // namespace

struct FuseSession::Impl {
  struct fuse_session* session = nullptr;
  FileSystem* files = nullptr;
  GrantedFeatures features;

  ~Impl() {
    if (session == nullptr) return;
    EndConnection();
    fuse_session_unmount(session);
    fuse_session_destroy(session);
  }

 private:
  // fuse_session_unmount would unmount by path whatever is there now, unless its descriptor says
  // that the connection has ended. A pipe that nobody reads says so; putting it in the place of
  // /dev/fuse closes that, which is what ends our connection.
  void EndConnection() const {
    std::array<int, 2> ends{};
    const int fd = fuse_session_fd(session);
    if (fd < 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    ::close(ends[0]);
    ::dup2(ends[1], fd);
    ::close(ends[1]);
  }
};

namespace {

/// Seconds. Names and attributes hold for the life of their inode; 31 years do not overflow the
/// kernel's arithmetic, as larger numbers have done.
constexpr double kForever = 1e9;

/// Seconds that a missing name is believed: an object may appear with a refresh (DESIGN 6.1).
constexpr double kNegativeTimeout = 1.0;

/// Bytes of one READ at most; the kernel's own limit for FUSE (256 pages).
constexpr unsigned kMaxReadBytes = 1 << 20;

/// READs that the kernel sends ahead of readers at once. Its default of 12 starves a cold epoch.
constexpr unsigned kMaxBackground = 128;

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

void OnLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const std::string_view text(name);
  if (text.size() > kMaxNameBytes) return ReplyError(request, FuseOp::kLookup, ENAMETOOLONG);
  const Result<FileSystem::Node> node = Server().files->Lookup(parent, text);
  if (node) {
    const fuse_entry_param entry = EntryOf(*node);
    Server().stats->CountOp(FuseOp::kLookup, 0);
    fuse_reply_entry(request, &entry);
    return;
  }
  if (node.error().code != Code::kNotFound) {
    return ReplyError(request, FuseOp::kLookup, ErrnoOf(node.error().code));
  }
  // Inode 0 is "no such name, and you may remember that".
  fuse_entry_param missing{};
  missing.entry_timeout = kNegativeTimeout;
  Server().stats->CountOp(FuseOp::kLookup, ENOENT);
  fuse_reply_entry(request, &missing);
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
    // knows, and none for control files, which are made by a real lookup only.
    if (!entry.node.lasting || name_ == "." || name_ == "..") param.ino = 0;
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
void ReplyXattr(fuse_req_t request, FuseOp op, const Result<std::string>& value, std::size_t size) {
  if (!value) {
    const Code code = value.error().code;
    return ReplyError(request, op, code == Code::kNotFound ? ENODATA : ErrnoOf(code));
  }
  if (size != 0 && size < value->size()) return ReplyError(request, op, ERANGE);
  Server().stats->CountOp(op, 0);
  if (size == 0) {
    fuse_reply_xattr(request, value->size());
  } else {
    fuse_reply_buf(request, value->data(), value->size());
  }
}

void OnGetxattr(fuse_req_t request, fuse_ino_t inode, const char* name, std::size_t size) {
  ReplyXattr(request, FuseOp::kGetxattr, Server().files->GetXattr(inode, name), size);
}

void OnListxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) {
  ReplyXattr(request, FuseOp::kListxattr, Server().files->ListXattr(inode), size);
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

// ENOSYS is "never ask again, treat it as done": one message a file less each (DESIGN 6.1). The
// kernel then keeps pages and directories cached as with keep_cache and cache_readdir.
void OnOpen(fuse_req_t request, fuse_ino_t, struct fuse_file_info*) {
  ReplyError(request, FuseOp::kOpen, ENOSYS);
}
void OnOpendir(fuse_req_t request, fuse_ino_t, struct fuse_file_info*) {
  ReplyError(request, FuseOp::kOpendir, ENOSYS);
}
void OnFlush(fuse_req_t request, fuse_ino_t, struct fuse_file_info*) {
  ReplyError(request, FuseOp::kFlush, ENOSYS);
}

// The mount is read-only, so the kernel refuses these itself, until somebody remounts it writable.
template <typename... Args>
void RefuseWrite(fuse_req_t request, Args...) {
  ReplyError(request, FuseOp::kWrite, EROFS);
}

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

Task<void> ServeRead(fuse_req_t request, FileReader* reader, WorkerStats* stats,
                     std::shared_ptr<std::size_t> reads, std::uint64_t inode, std::uint64_t offset,
                     std::size_t size, pid_t thread) {
  const Result<std::vector<Slice>> slices = co_await reader->Read(inode, offset, size, thread);
  --*reads;
  if (!slices) {
    const int number = ErrnoOf(slices.error().code);
    stats->CountOp(FuseOp::kRead, number);
    fuse_reply_err(request, number);
    co_return;
  }
  stats->CountOp(FuseOp::kRead, 0);
  ReplySlices(request, *slices);
}

void OnRead(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
            struct fuse_file_info*) {
  FuseServer::Impl& server = Server();
  ++*server.reads;
  Spawn(*server.context,
        ServeRead(request, server.reader, server.stats, server.reads, inode,
                  static_cast<std::uint64_t>(offset), size, fuse_req_ctx(request)->pid));
}

struct FeatureName {
  unsigned flag;
  const char* name;
};
constexpr std::array<FeatureName, 6> kFeatures = {{
    {FUSE_CAP_ASYNC_READ, "async_read"},
    {FUSE_CAP_PARALLEL_DIROPS, "parallel_dirops"},
    {FUSE_CAP_READDIRPLUS, "readdirplus"},
    {FUSE_CAP_NO_OPEN_SUPPORT, "no_open"},
    {FUSE_CAP_NO_OPENDIR_SUPPORT, "no_opendir"},
    {FUSE_CAP_EXPLICIT_INVAL_DATA, "explicit_inval_data"},
}};

void OnInit(void* userdata, struct fuse_conn_info* connection) {
  constexpr unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
                              FUSE_CAP_READDIRPLUS | FUSE_CAP_EXPLICIT_INVAL_DATA;
  // Splicing lost to copying in every test (DESIGN 6.3); AUTO costs a LOOKUP for most entries of a
  // walk; automatic invalidation would drop pages by mtime, which says nothing here.
  constexpr unsigned unwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO |
                                FUSE_CAP_AUTO_INVAL_DATA;
  connection->want |= connection->capable & wanted;
  connection->want &= ~unwanted;
  connection->max_read = kMaxReadBytes;
  connection->max_write = kMaxReadBytes;  // the kernel takes its pages per request from this one
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
  std::string features;
  for (const FeatureName& feature : kFeatures) {
    if ((connection->capable & feature.flag) == 0) continue;
    features.append(features.empty() ? "" : " ").append(feature.name);
  }
  spdlog::info("kernel FUSE {}.{}: {}", connection->proto_major, connection->proto_minor, features);
  auto* granted = static_cast<GrantedFeatures*>(userdata);
  std::scoped_lock lock(granted->mutex);
  granted->names = std::move(features);
}

struct fuse_lowlevel_ops Operations() {
  struct fuse_lowlevel_ops ops{};
  ops.init = OnInit;
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.getattr = OnGetattr;
  ops.open = OnOpen;
  ops.read = OnRead;
  ops.flush = OnFlush;
  ops.opendir = OnOpendir;
  ops.readdir = OnReaddir;
  ops.readdirplus = OnReaddirplus;
  ops.statfs = OnStatfs;
  ops.getxattr = OnGetxattr;
  ops.listxattr = OnListxattr;
  ops.setattr = RefuseWrite;
  ops.mknod = RefuseWrite;
  ops.mkdir = RefuseWrite;
  ops.unlink = RefuseWrite;
  ops.rmdir = RefuseWrite;
  ops.symlink = RefuseWrite;
  ops.rename = RefuseWrite;
  ops.link = RefuseWrite;
  ops.write = RefuseWrite;
  ops.create = RefuseWrite;
  ops.setxattr = RefuseWrite;
  ops.removexattr = RefuseWrite;
  ops.fallocate = RefuseWrite;
  return ops;
}

/// What libfuse says when it fails; it has no other way to tell.
std::string& LastFuseMessage() {
  static thread_local std::string message;
  return message;
}

__attribute__((format(printf, 2, 0))) void OnFuseLog(enum fuse_log_level level, const char* format,
                                                     va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') line.pop_back();
  LastFuseMessage() = line;
  if (level > FUSE_LOG_WARNING) {
    spdlog::debug("libfuse: {}", line);
  } else {
    spdlog::warn("libfuse: {}", line);
  }
}

std::string MountOptionsOf(const FuseSessionOptions& options) {
  std::string text = "ro,nosuid,nodev,default_permissions,subtype=forebay,max_read=" +
                     std::to_string(kMaxReadBytes);
  // A comma or backslash would be read as another option; the source is for people only.
  const bool plain = options.source.find_first_of(",\\ \t\n") == std::string::npos;
  text += ",fsname=" + (plain ? options.source : std::string("forebay"));
  if (options.allow_other) text += ",allow_other";
  return text;
}

}  // namespace

FuseSession::FuseSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FuseSession::~FuseSession() = default;

Result<std::unique_ptr<FuseSession>> FuseSession::Mount(FuseSessionOptions options,
                                                        FileSystem& files) {
  fuse_set_log_func(OnFuseLog);
  auto impl = std::make_unique<Impl>();
  impl->files = &files;
  std::string program = "forebay-mount";
  std::string flag = "-o";
  std::string text = MountOptionsOf(options);
  std::array<char*, 4> argv = {program.data(), flag.data(), text.data(), nullptr};
  struct fuse_args arguments = FUSE_ARGS_INIT(3, argv.data());
  const struct fuse_lowlevel_ops ops = Operations();
  impl->session = fuse_session_new(&arguments, &ops, sizeof ops, &impl->features);
  fuse_opt_free_args(&arguments);
  if (impl->session == nullptr) {
    return Fail(Code::kInternal, "libfuse refused the mount options: " + LastFuseMessage());
  }
  if (fuse_session_mount(impl->session, options.mountpoint.c_str()) != 0) {
    return Fail(Code::kInternal,
                "cannot mount on " + options.mountpoint + ": " + LastFuseMessage());
  }
  const int fd = fuse_session_fd(impl->session);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Fail(Code::kInternal, "cannot make /dev/fuse non-blocking");
  }
  return std::unique_ptr<FuseSession>(new FuseSession(std::move(impl)));
}

int FuseSession::descriptor() const { return fuse_session_fd(impl_->session); }

std::string FuseSession::Features() const {
  std::scoped_lock lock(impl_->features.mutex);
  return impl_->features.names;
}

FuseServer::FuseServer(FuseSession& session, asio::io_context& context, FileReader& reader,
                       WorkerStats& stats)
    : impl_(std::make_unique<Impl>()) {
  impl_->session = &session;
  impl_->context = &context;
  impl_->reader = &reader;
  impl_->stats = &stats;
  impl_->files = session.impl_->files;
}

FuseServer::~FuseServer() { std::free(impl_->request.mem); }  // libfuse allocated it with malloc

std::size_t FuseServer::reads_in_flight() const { return *impl_->reads; }

FuseServer::Drained FuseServer::Drain(std::size_t limit) {
  current_server = impl_.get();
  struct fuse_session* session = impl_->session->impl_->session;
  for (std::size_t i = 0; i < limit; ++i) {
    const int received = fuse_session_receive_buf(session, &impl_->request);
    if (received == -EINTR) continue;
    if (received == -EAGAIN) return Drained::kIdle;
    if (received <= 0) return Drained::kEnded;
    fuse_session_process_buf(session, &impl_->request);
  }
  return fuse_session_exited(session) != 0 ? Drained::kEnded : Drained::kMore;
}

}  // namespace forebay
