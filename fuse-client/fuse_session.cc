#include "fuse-client/fuse_session.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <utility>

#include "fuse-client/fuse_api.h"

namespace forebay {

namespace {

/// Written when the kernel opens the conversation, on whichever thread takes that message.
struct GrantedFeatures {
  std::mutex mutex;
  std::string names;
};

/// What libfuse carries for us.
struct Userdata {
  GrantedFeatures features;
  void* context = nullptr;
  unsigned wanted = 0;  // FUSE_CAP_…
};

}  // namespace

struct FuseSession::Impl {
  struct fuse_session* session = nullptr;
  Userdata userdata;

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

/// Bytes of one READ at most; the kernel's own limit for FUSE (256 pages).
constexpr unsigned kMaxReadBytes = 1 << 20;

/// READs that the kernel sends ahead of readers at once. Its default of 12 starves a cold epoch.
constexpr unsigned kMaxBackground = 128;

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
  // Splicing lost to copying in every test (DESIGN 6.3); AUTO costs a LOOKUP for most entries of a
  // walk; automatic invalidation would drop pages by mtime, which says nothing here.
  constexpr unsigned unwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO |
                                FUSE_CAP_AUTO_INVAL_DATA;
  connection->want |= connection->capable & static_cast<Userdata*>(userdata)->wanted;
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
  GrantedFeatures& granted = static_cast<Userdata*>(userdata)->features;
  std::scoped_lock lock(granted.mutex);
  granted.names = std::move(features);
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
  std::string text = options.read_only ? "ro" : "rw";
  text +=
      ",nosuid,nodev,default_permissions,subtype=forebay,max_read=" + std::to_string(kMaxReadBytes);
  // libfuse takes a comma for the end of an option unless a backslash stands before it.
  text += ",fsname=";
  for (const char c : options.source) {
    if (c == ',' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  if (options.allow_other) text += ",allow_other";
  return text;
}

}  // namespace

FuseSession::FuseSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FuseSession::~FuseSession() = default;

Result<std::unique_ptr<FuseSession>> FuseSession::Mount(FuseSessionOptions options,
                                                        const struct fuse_lowlevel_ops& operations,
                                                        void* context) {
  fuse_set_log_func(OnFuseLog);
  auto impl = std::make_unique<Impl>();
  impl->userdata.context = context;
  impl->userdata.wanted =
      FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_EXPLICIT_INVAL_DATA;
  // The kernel takes our word for it that we know the operation.
  if (operations.readdirplus != nullptr) impl->userdata.wanted |= FUSE_CAP_READDIRPLUS;
  std::string program = "forebay-mount";
  std::string flag = "-o";
  std::string text = MountOptionsOf(options);
  std::array<char*, 4> argv = {program.data(), flag.data(), text.data(), nullptr};
  struct fuse_args arguments = FUSE_ARGS_INIT(3, argv.data());
  struct fuse_lowlevel_ops ops = operations;
  ops.init = OnInit;
  impl->session = fuse_session_new(&arguments, &ops, sizeof ops, &impl->userdata);
  fuse_opt_free_args(&arguments);
  if (impl->session == nullptr) {
    return Fail(Code::kInternal, "libfuse refused the mount options: " + LastFuseMessage());
  }
  if (fuse_session_mount(impl->session, options.mountpoint.c_str()) != 0) {
    const std::string& reason = LastFuseMessage();
    return Fail(Code::kInternal,
                "cannot mount on " + options.mountpoint + ": " +
                    (reason.empty() ? "fusermount3 refuses, and says why by itself" : reason));
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
  std::scoped_lock lock(impl_->userdata.features.mutex);
  return impl_->userdata.features.names;
}

struct fuse_session* FuseSession::handle() const { return impl_->session; }

// Errors say that the kernel does not remember it, or that the mount is gone.
void FuseSession::ForgetName(std::uint64_t parent, const std::string& name) {
  (void)fuse_lowlevel_notify_inval_entry(impl_->session, parent, name.data(), name.size());
}

void FuseSession::ForgetNode(std::uint64_t nodeid) {
  (void)fuse_lowlevel_notify_inval_inode(impl_->session, nodeid, 0, 0);
}

void FuseSession::ForgetAttributes(std::uint64_t nodeid) {
  constexpr off_t kNoPages = -1;
  (void)fuse_lowlevel_notify_inval_inode(impl_->session, nodeid, kNoPages, 0);
}

void* FuseSession::ContextOf(void* userdata) { return static_cast<Userdata*>(userdata)->context; }

FuseSession::Drained FuseSession::Drain(struct fuse_buf& buffer, std::size_t limit) {
  struct fuse_session* session = impl_->session;
  for (std::size_t i = 0; i < limit; ++i) {
    const int received = fuse_session_receive_buf(session, &buffer);
    if (received == -EINTR) continue;
    if (received == -EAGAIN) return Drained::kIdle;
    if (received <= 0) return Drained::kEnded;
    fuse_session_process_buf(session, &buffer);
  }
  return fuse_session_exited(session) != 0 ? Drained::kEnded : Drained::kMore;
}

}  // namespace forebay
