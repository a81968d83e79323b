#include "fuse-client/fuse_session.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "fuse-client/fuse_api.h"
#include "fuse-client/fuse_kernel.h"
#include "fuse-client/fuse_library.h"
#include "fuse-client/fuse_mount.h"
#include "fuse-client/fuse_offer.h"

namespace forebay {

namespace {

/// Says that a request was handed out before; not a part of its number (linux/fuse.h).
constexpr std::uint64_t kHandedOutAgain = 1ULL << 63;

thread_local std::uint64_t current_request = 0;

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
  // Known before the first message is processed.
  bool large = false;
  bool can_resend = false;
  bool offers_max_pages = false;
  bool offers_direct_mmap = false;
  bool wants_passthrough = false;
  bool offers_passthrough = false;
  std::atomic<bool> direct_reads{false};
  std::atomic<bool> passthrough{false};
  std::atomic<bool> needs_open{false};
  std::atomic<bool> needs_opendir{false};
  std::atomic<std::uint64_t> first_request{0};  // its number
};

}  // namespace

struct FuseSession::Impl {
  Userdata userdata;
  std::uint32_t connection = 0;
  std::function<void(std::string_view)> keep_first_message;
  bool resent = false;  // what an earlier process has not answered comes again by itself
  FuseLibrarySession session;
};

namespace {

/// Of one message to the kernel's page cache.
constexpr std::size_t kStoreBytes = 1 << 20;

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
  static_cast<Userdata*>(userdata)->needs_open =
      (connection->capable & FUSE_CAP_NO_OPEN_SUPPORT) == 0;
  static_cast<Userdata*>(userdata)->needs_opendir =
      (connection->capable & FUSE_CAP_NO_OPENDIR_SUPPORT) == 0;
  connection->max_read = kMaxReadBytes;
  connection->max_write = kMaxReadBytes;  // the kernel takes its pages per request from this one
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
  const auto* session = static_cast<Userdata*>(userdata);
  std::string features;
  const auto add = [&features](bool offered, std::string_view name) {
    if (offered) features.append(features.empty() ? "" : " ").append(name);
  };
  for (const FeatureName& feature : kFeatures) {
    add((connection->capable & feature.flag) != 0, feature.name);
  }
  add(session->offers_max_pages, "max_pages");
  add(session->can_resend, "resend");
  add(session->offers_direct_mmap, "direct_io_allow_mmap");
  add(session->offers_passthrough, "passthrough");
  add(KnowsCachestat(), "cachestat");
  spdlog::info("kernel FUSE {}.{}: {}", connection->proto_major, connection->proto_minor, features);
  GrantedFeatures& granted = static_cast<Userdata*>(userdata)->features;
  std::scoped_lock lock(granted.mutex);
  granted.names = std::move(features);
}

/// The kernel refuses a smaller buffer than its largest write and two headers.
constexpr std::size_t kLongestRequest = kMaxReadBytes + 4096;

std::string ErrnoText() { return std::generic_category().message(errno); }

fuse_in_header HeaderOf(const std::byte* request) {
  fuse_in_header header{};
  std::memcpy(&header, request, sizeof header);
  return header;
}

/// What the kernel offers, and what of that is ours to take: libfuse 3.14 does not know these.
void ReadOffer(std::string_view first_message, Userdata& userdata) {
  fuse_init_in init{};
  constexpr std::size_t kThere = sizeof(fuse_in_header);
  if (first_message.size() < kThere) return;
  std::memcpy(&init, first_message.data() + kThere,
              std::min(sizeof init, first_message.size() - kThere));
  const std::uint64_t flags = FlagsOf(init);
  userdata.can_resend = (flags & kFuseHasResend) != 0;
  userdata.offers_max_pages = (flags & FUSE_MAX_PAGES) != 0;
  userdata.offers_direct_mmap = (flags & kFuseDirectIoAllowMmap) != 0;
  userdata.direct_reads = userdata.large && userdata.offers_direct_mmap;
  userdata.offers_passthrough = (flags & kFusePassthrough) != 0;
  userdata.passthrough =
      userdata.wants_passthrough && userdata.direct_reads && userdata.offers_passthrough;
  userdata.first_request =
      HeaderOf(reinterpret_cast<const std::byte*>(first_message.data())).unique;
}

/// libfuse's write to the kernel, with what it does not know added to the first answer.
ssize_t WriteReply(int fd, iovec* parts, int count, void* context) {
  auto& userdata = *static_cast<Userdata*>(context);
  if (userdata.direct_reads && userdata.first_request != 0 && count == 2) {
    fuse_out_header header{};
    fuse_init_out answer{};
    std::memcpy(&header, parts[0].iov_base, std::min(sizeof header, parts[0].iov_len));
    const bool is_first = header.unique == userdata.first_request && header.error == 0;
    if (is_first && parts[1].iov_len == sizeof answer) {
      userdata.first_request = 0;
      std::memcpy(&answer, parts[1].iov_base, sizeof answer);
      answer.flags |= FUSE_INIT_EXT;
      answer.flags2 |= static_cast<std::uint32_t>(kFuseDirectIoAllowMmap >> 32);
      if (userdata.passthrough) {
        answer.flags2 |= static_cast<std::uint32_t>(kFusePassthrough >> 32);
        std::memcpy(reinterpret_cast<std::byte*>(&answer) + kFuseStackDepthOffset, &kFuseStackDepth,
                    sizeof kFuseStackDepth);
      }
      std::memcpy(parts[1].iov_base, &answer, sizeof answer);
    }
  }
  return ::writev(fd, parts, count);
}

ssize_t ReadRequest(int fd, void* to, std::size_t size, void*) { return ::read(fd, to, size); }

/// Gives the session its connection.
int Connect(struct fuse_session* session, int fd, bool patches_replies) {
  if (patches_replies) {
    struct fuse_custom_io io{};
    io.writev = WriteReply;
    io.read = ReadRequest;
    return fuse_session_custom_io(session, &io, fd);
  }
  // This path is libfuse's way to be given a mount that is there already.
  return fuse_session_mount(session, ("/dev/fd/" + std::to_string(fd)).c_str());
}

bool AskToResend(int connection) {
  const fuse_out_header notice{
      .len = sizeof(fuse_out_header), .error = kFuseNotifyResend, .unique = 0};
  return ::write(connection, &notice, sizeof notice) >= 0;
}

}  // namespace

RequestBuffer::RequestBuffer()
    : bytes_(std::make_unique_for_overwrite<std::byte[]>(kLongestRequest)) {}

std::size_t RequestBuffer::rest_size() const {
  return kLongestRequest - RequestSlot::kRequestBytes;
}

std::byte* RequestBuffer::Whole(const RequestSlot& slot) {
  std::memcpy(bytes_.get(), slot.request.data(), slot.request.size());
  return bytes_.get();
}

FuseSession::FuseSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FuseSession::~FuseSession() = default;

Result<std::unique_ptr<FuseSession>> FuseSession::Serve(FuseConnection connection,
                                                        const struct fuse_lowlevel_ops& operations,
                                                        void* context) {
  auto impl = std::make_unique<Impl>();
  impl->userdata.context = context;
  impl->userdata.wanted =
      FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_EXPLICIT_INVAL_DATA;
  // The kernel takes our word for it that we know the operation.
  if (operations.readdirplus != nullptr) impl->userdata.wanted |= FUSE_CAP_READDIRPLUS;
  impl->connection = connection.id;
  impl->keep_first_message = std::move(connection.keep_first_message);
  struct fuse_lowlevel_ops ops = operations;
  ops.init = OnInit;
  Result<FuseLibrarySession> made =
      NewFuseLibrarySession("max_read=" + std::to_string(kMaxReadBytes), ops, &impl->userdata);
  if (!made) return Fail(made.error());
  impl->session = std::move(*made);
  impl->userdata.large = connection.large;
  impl->userdata.wants_passthrough = connection.passthrough;
  if (Connect(impl->session.get(), connection.fd.get(), connection.large) != 0) {
    return Fail(Code::kInternal, "libfuse refused the connection: " + LastFuseMessage());
  }
  const int fd = connection.fd.Release();  // the session closes it
  std::string& first = connection.first_message;
  if (!first.empty()) {
    ReadOffer(first, impl->userdata);
    // The answer to it has no taker: the write fails, which libfuse expects.
    struct fuse_buf buffer{};
    buffer.mem = first.data();
    buffer.size = first.size();
    fuse_session_process_buf(impl->session.get(), &buffer);
    impl->resent = impl->userdata.can_resend && AskToResend(fd);
    spdlog::info("what the process before this one left unanswered {}",
                 impl->resent ? "comes again from the kernel" : "is in its slots");
  }
  return std::unique_ptr<FuseSession>(new FuseSession(std::move(impl)));
}

int FuseSession::descriptor() const { return fuse_session_fd(impl_->session.get()); }

std::string FuseSession::Features() const {
  std::scoped_lock lock(impl_->userdata.features.mutex);
  return impl_->userdata.features.names;
}

bool FuseSession::DirectReads() const { return impl_->userdata.direct_reads; }

bool FuseSession::Passthrough() const { return impl_->userdata.passthrough; }

Result<std::int32_t> FuseSession::OpenBacking(int fd) const {
  FuseBackingMap map;
  map.fd = fd;
  const int backing = ::ioctl(descriptor(), kFuseBackingOpen, &map);
  if (backing > 0) return backing;
  if (errno == EPERM) return Fail(Code::kDenied, "the kernel wants CAP_SYS_ADMIN for passthrough");
  if (errno == ELOOP) {
    return Fail(Code::kInternal, "their folder lies on a stacked file system, such as overlayfs");
  }
  return Fail(Code::kInternal, "the kernel refuses a backing file: " + ErrnoText());
}

void FuseSession::CloseBacking(std::int32_t backing) const {
  const auto number = static_cast<std::uint32_t>(backing);
  (void)::ioctl(descriptor(), kFuseBackingClose, &number);
}
bool FuseSession::NeedsOpen() const { return impl_->userdata.needs_open; }

bool FuseSession::NeedsOpendir() const { return impl_->userdata.needs_opendir; }

bool FuseSession::CachesDirectories() const { return !LacksFeature("cache_dir"); }

struct fuse_session* FuseSession::handle() const { return impl_->session.get(); }

// Errors say that the kernel does not remember it, or that the mount is gone.
void FuseSession::ForgetName(std::uint64_t parent, const std::string& name) {
  (void)fuse_lowlevel_notify_inval_entry(impl_->session.get(), parent, name.data(), name.size());
}

void FuseSession::ForgetNode(std::uint64_t nodeid) {
  (void)fuse_lowlevel_notify_inval_inode(impl_->session.get(), nodeid, 0, 0);
}

void FuseSession::ForgetAttributes(std::uint64_t nodeid) {
  constexpr off_t kNoPages = -1;
  (void)fuse_lowlevel_notify_inval_inode(impl_->session.get(), nodeid, kNoPages, 0);
}

// A part of a file at a time: its pages are locked while they are written.
bool FuseSession::Store(std::uint64_t nodeid, const std::vector<Slice>& content) {
  std::uint64_t offset = 0;
  for (const Slice& slice : content) {
    for (std::size_t done = 0; done < slice.bytes.size(); done += kStoreBytes) {
      const auto part = slice.bytes.subspan(done, std::min(kStoreBytes, slice.bytes.size() - done));
      fuse_notify_store_out where{};
      where.nodeid = nodeid;
      where.offset = offset;
      where.size = static_cast<std::uint32_t>(part.size());
      fuse_out_header notice{};
      notice.len = static_cast<std::uint32_t>(sizeof notice + sizeof where + part.size());
      notice.error = FUSE_NOTIFY_STORE;
      const std::array<iovec, 3> parts = {{{&notice, sizeof notice},
                                           {&where, sizeof where},
                                           {const_cast<std::byte*>(part.data()), part.size()}}};
      if (::writev(descriptor(), parts.data(), parts.size()) < 0) return false;
      offset += part.size();
    }
  }
  return true;
}

void* FuseSession::ContextOf(void* userdata) { return static_cast<Userdata*>(userdata)->context; }

std::uint64_t FuseSession::CurrentRequest() { return current_request; }

FuseSession::Drained FuseSession::Drain(SlotArena& slots, RequestBuffer& buffer,
                                        std::size_t limit) {
  for (std::size_t i = 0; i < limit; ++i) {
    RequestSlot* slot = slots.Take(impl_->connection);
    if (slot == nullptr) return Drained::kFull;
    const std::array<iovec, 2> places = {
        {{slot->request.data(), slot->request.size()}, {buffer.rest(), buffer.rest_size()}}};
    const ssize_t received = ::readv(descriptor(), places.data(), places.size());
    if (received < 0) {
      const int number = errno;
      slots.Release(slot);
      // ENOENT: whoever asked has gone meanwhile.
      if (number == EINTR || number == ENOENT) continue;
      return number == EAGAIN ? Drained::kIdle : Drained::kEnded;
    }
    const auto size = static_cast<std::size_t>(received);
    if (size < sizeof(fuse_in_header)) {
      slots.Release(slot);
      return Drained::kEnded;
    }
    const bool fits = size <= slot->request.size();
    Process(slots, *slot, fits ? slot->request.data() : buffer.Whole(*slot), size);
  }
  return fuse_session_exited(impl_->session.get()) != 0 ? Drained::kEnded : Drained::kMore;
}

void FuseSession::Process(SlotArena& slots, RequestSlot& slot, std::byte* request,
                          std::size_t size) {
  if (HeaderOf(request).opcode == FUSE_INIT) {
    TakeOffOffer({request, size}, LackingFlags());
    const std::string_view message(reinterpret_cast<const char*>(request), size);
    ReadOffer(message, impl_->userdata);
    if (impl_->keep_first_message) impl_->keep_first_message(message);
  }
  struct fuse_buf buffer{};
  buffer.mem = request;
  buffer.size = size;
  current_request = HeaderOf(request).unique & ~kHandedOutAgain;
  slots.SetCurrent(&slot);
  fuse_session_process_buf(impl_->session.get(), &buffer);
  slots.EndCurrent();
}

void FuseSession::TakeOver(SlotArena& slots) {
  for (RequestSlot* slot : slots.Leftovers(impl_->connection)) {
    if (impl_->resent) {
      slots.Release(slot);
    } else {
      Replay(slots, *slot);
    }
  }
}

// What has been answered already, too, may be here: the kernel takes no second answer. Forgets and
// interrupts want none, and concern what the process before this one knew.
void FuseSession::Replay(SlotArena& slots, RequestSlot& slot) {
  const fuse_in_header header = HeaderOf(slot.request.data());
  switch (header.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return slots.Release(&slot);
    case FUSE_INIT:
      // Serve has done it, if it was kept.
      if (!Features().empty()) return slots.Release(&slot);
      break;
    default:
      break;
  }
  if (header.len <= slot.request.size()) {
    return Process(slots, slot, slot.request.data(), header.len);
  }
  // Only the beginning is here. A request that does not write is so long by its name alone.
  const int number = header.opcode == FUSE_LOOKUP ? ENAMETOOLONG : EROFS;
  const fuse_out_header answer{
      .len = sizeof(fuse_out_header), .error = -number, .unique = header.unique};
  (void)!::write(descriptor(), &answer, sizeof answer);
  slots.Release(&slot);
}

}  // namespace forebay
