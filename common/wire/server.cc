#include "common/wire/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "common/trust/identity.h"
#include "common/wire/address.h"
#include "common/wire/half_open.h"
#include "common/wire/member_share.h"
#include "common/wire/opening.h"
#include "common/wire/rpc_rules.h"
#include "common/wire/server_connection.h"
#include "common/wire/tcp_options.h"
#include "common/wire/turned_away.h"
#include "common/wire/wire_stream.h"

namespace forebay {
namespace {

constexpr std::chrono::milliseconds kLook{2};
// For what needs a turn of the event loops or of the network, once calls are over.
constexpr std::chrono::milliseconds kLastTurns{1000};

bool WaitUntil(Deadline deadline, const std::function<bool()>& reached) {
  while (!reached()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

Error OfErrno(const std::string& what) {
  const int error = errno;
  return Error{Code::kInternal, what + ": " + std::generic_category().message(error)};
}

// A socket file that nobody listens on any more is left by a process that was killed.
Status RemoveStaleSocket(const std::string& path, const StreamEndpoint& endpoint) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) return Fail(Code::kInvalid, path + " exists and is no socket");
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool alive =
      probe >= 0 && connect(probe, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
  if (probe >= 0) close(probe);
  if (alive) return Fail(Code::kInvalid, path + " is in use by another process");
  if (unlink(path.c_str()) != 0) return Fail(OfErrno("cannot remove the stale socket " + path));
  return {};
}

/// A bound and listening socket; closes it unless released.
class Listener {
 public:
  explicit Listener(int fd) : fd_(fd) {}
  Listener(Listener&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Listener& operator=(Listener&&) = delete;
  ~Listener() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Result<Listener> Bind(const std::string& address, const StreamEndpoint& endpoint) {
  const std::string path = UnixPathOf(address);
  if (!path.empty()) {
    Status free = RemoveStaleSocket(path, endpoint);
    if (!free) return Fail(free.error());
  }
  Listener listener(
      socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener.get() < 0) return Fail(OfErrno("cannot make a socket for " + address));
  const int on = 1;
  // Without it a restarted daemon could not listen again for a minute.
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    const Error error = OfErrno("cannot listen on " + address);
    return Fail(errno == EADDRINUSE ? Error{Code::kInvalid, error.message} : error);
  }
  // Before listen(2): nobody can connect while the mode is wider.
  if (!path.empty() && chmod(path.c_str(), 0600) != 0)
    return Fail(OfErrno("cannot protect " + path));
  if (listen(listener.get(), SOMAXCONN) != 0) return Fail(OfErrno("cannot listen on " + address));
  return listener;
}

std::string BoundAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return DescribeEndpoint(StreamEndpoint(&storage, size, 0));
}

}  // namespace

class RpcServer::Impl : public std::enable_shared_from_this<RpcServer::Impl> {
 public:
  Impl(IoPool& pool, std::shared_ptr<ServerShared> shared)
      : pool_(pool), shared_(std::move(shared)), share_(ShareOf(shared_->options)) {}

  Status Start();
  void Stop(Deadline drain);
  const std::vector<std::string>& addresses() const { return addresses_; }
  ServerShared& shared() { return *shared_; }

 private:
  using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

  Task<void> Accept(std::shared_ptr<Acceptor> acceptor);
  Task<void> Open(std::shared_ptr<StreamSocket> socket, HalfOpen::Place place);
  Status Admit(const PeerIdentity& peer, std::optional<MemberShare::Place>& share);
  void TurnAway(std::string_view why);
  static std::size_t ShareOf(const RpcServerOptions& options) {
    return std::max<std::size_t>(1, options.max_connections / kMemberShares);
  }
  void CloseListeners();
  bool Idle() const;

  IoPool& pool_;
  const std::shared_ptr<ServerShared> shared_;
  std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  const std::shared_ptr<HalfOpen> half_open_ =
      std::make_shared<HalfOpen>(std::max<std::size_t>(1, shared_->options.max_connections / 2),
                                 shared_->options.max_connections);
  const std::size_t share_;  // of one member, in connections
  const std::shared_ptr<MemberShare> members_ = std::make_shared<MemberShare>(share_);
  TurnedAway turned_away_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<ServerConnection>> connections_;  // guarded by mutex_
  bool stopped_ = false;                                      // guarded by mutex_
};

Status RpcServer::Impl::Start() {
  for (const auto& [method, entry] : shared_->methods) {
    if (RuleOf(method) != nullptr) continue;
    return Fail(Code::kInternal, "request " + std::to_string(static_cast<unsigned>(method)) +
                                     " has no row in the table of who may make it");
  }
  const bool proves = shared_->options.credentials.trust != nullptr;
  const Reach reach = proves ? Reach::kEveryone : shared_->options.reach;
  std::vector<Listener> bound;
  std::vector<StreamEndpoint> endpoints;
  for (const std::string& address : shared_->options.listen) {
    Result<StreamEndpoint> endpoint = ListenEndpoint(address, reach);
    if (!endpoint) return Fail(endpoint.error());
    endpoints.push_back(*endpoint);
  }
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    Result<Listener> listener = Bind(shared_->options.listen[i], endpoints[i]);
    if (!listener) return Fail(listener.error());
    bound.push_back(std::move(*listener));
  }
  for (std::size_t i = 0; i < bound.size(); ++i) {
    addresses_.push_back(BoundAddress(bound[i].get()));
    asio::io_context& context = pool_.Next();
    auto acceptor = std::make_shared<Acceptor>(context);
    acceptor->assign(endpoints[i].protocol(), bound[i].Release());
    acceptors_.push_back(acceptor);
    Spawn(context, Accept(std::move(acceptor)));
  }
  return {};
}

Task<void> RpcServer::Impl::Accept(std::shared_ptr<Acceptor> acceptor) {
  const std::shared_ptr<Impl> self = shared_from_this();
  while (acceptor->is_open()) {
    asio::io_context& context = pool_.Next();
    auto socket = std::make_shared<StreamSocket>(context);
    boost::system::error_code error;
    StreamEndpoint peer;
    co_await acceptor->async_accept(*socket, peer,
                                    asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted || !acceptor->is_open()) co_return;
    if (error) {
      // Out of descriptors, most likely: let some connections end instead of spinning.
      ServerShared::Warn(shared_->refusals, "cannot accept a connection: " + error.message());
      constexpr std::chrono::milliseconds kPause{100};
      co_await SleepFor(kPause);
      continue;
    }
    shared_->counters.accepted.fetch_add(1, std::memory_order_relaxed);
    std::optional<HalfOpen::Place> place = HalfOpen::Enter(half_open_, socket, peer);
    if (!place) {
      shared_->counters.handshakes_refused.fetch_add(1, std::memory_order_relaxed);
      TurnAway(std::to_string(shared_->options.max_connections) +
               " are open, as many as this program takes");
      continue;
    }
    Spawn(context, Open(std::move(socket), std::move(*place)));
  }
}

void RpcServer::Impl::TurnAway(std::string_view why) {
  const std::optional<std::string> line = turned_away_.Note(why, Clock::now());
  if (line) spdlog::warn("{}", *line);
}

/// kUnavailable: whoever asks goes to the next owner, or to another coordinator.
Status RpcServer::Impl::Admit(const PeerIdentity& peer, std::optional<MemberShare::Place>& share) {
  std::optional<MemberShare::Place> place = MemberShare::Enter(members_, peer);
  if (place) {
    share.emplace(std::move(*place));
    return {};
  }
  const std::string why = NameOf({.cluster = {}, .role = peer.role, .id = peer.id}) + " has " +
                          std::to_string(share_) + " connections to " +
                          shared_->options.credentials.program +
                          ", as many as one member may have: end some of its programs";
  TurnAway(why);
  return Fail(Code::kUnavailable, why);
}

// `place` goes over to the connection. That of a stranger still makes way for others: a crowd of
// them keeps out neither members nor each other.
Task<void> RpcServer::Impl::Open(std::shared_ptr<StreamSocket> socket, HalfOpen::Place place) {
  const std::shared_ptr<Impl> self = shared_from_this();
  const Deadline deadline = Deadline::After(shared_->options.handshake_timeout);
  const Credentials credentials = shared_->options.credentials;
  auto stream = std::make_unique<WireStream>(socket);
  std::optional<MemberShare::Place> share;
  const forebay::Admit admit = [this, &share, &place](const PeerIdentity& peer) {
    Status admitted = Admit(peer, share);
    // Before it is told: from then on it counts on its connection.
    if (admitted && peer.role != proto::ROLE_STRANGER) place.Prove();
    return admitted;
  };
  Result<OpenedSocket> opened =
      co_await OpenAsServer(*stream, credentials, shared_->epoch(), admit, deadline);
  if (!opened) {
    shared_->counters.handshakes_refused.fetch_add(1, std::memory_order_relaxed);
    // A connection that ends without a word is a port probe.
    if (opened.error().code != Code::kUnavailable)
      ServerShared::Warn(shared_->refusals, "refused a connection: " + opened.error().message);
    co_return;
  }
  boost::system::error_code ignored;
  const StreamEndpoint remote = socket->remote_endpoint(ignored);
  if (!ignored) opened->peer.address = DescribeEndpoint(remote);
  SetTcpOptions(*socket);
  ServerConnection::Room room;
  if (share) room.share.emplace(std::move(*share));
  room.place.emplace(std::move(place));
  auto connection =
      std::make_shared<ServerConnection>(shared_, opened->peer, std::move(stream), std::move(room));
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) co_return;
    std::erase_if(connections_, [](const auto& other) { return other.expired(); });
    connections_.push_back(connection);
    shared_->counters.connections.fetch_add(1, std::memory_order_relaxed);
  }
  connection->Start();
}

void RpcServer::Impl::CloseListeners() {
  // Once: later the path may be another server's.
  const std::vector<std::shared_ptr<Acceptor>> acceptors = std::exchange(acceptors_, {});
  if (acceptors.empty()) return;
  for (const std::string& address : addresses_) {
    const std::string path = UnixPathOf(address);
    if (!path.empty()) unlink(path.c_str());
  }
  const auto open = std::make_shared<std::atomic<std::size_t>>(acceptors.size());
  for (const auto& acceptor : acceptors) {
    asio::post(acceptor->get_executor(), [acceptor, open] {
      boost::system::error_code ignored;
      acceptor->close(ignored);
      open->fetch_sub(1);
    });
  }
  if (!WaitUntil(Deadline::After(kLastTurns), [&open] { return open->load() == 0; }))
    spdlog::error("the listening sockets could not be closed: the event loops do not run");
}

bool RpcServer::Impl::Idle() const {
  return shared_->counters.connections.load() + shared_->counters.calls_in_flight.load() +
             half_open_->size() ==
         0;
}

void RpcServer::Impl::Stop(Deadline drain) {
  shared_->draining.store(true, std::memory_order_release);
  CloseListeners();
  std::vector<std::weak_ptr<ServerConnection>> connections;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    connections.swap(connections_);
  }
  half_open_->CloseAll();
  WaitUntil(drain, [this] { return shared_->counters.calls_in_flight.load() == 0; });
  const auto each = [&connections](void (ServerConnection::*act)()) {
    for (const auto& weak : connections) {
      if (const std::shared_ptr<ServerConnection> open = weak.lock()) ((*open).*act)();
    }
  };
  each(&ServerConnection::Finish);
  if (WaitUntil(Deadline::After(kLastTurns), [this] { return Idle(); })) return;
  each(&ServerConnection::Shutdown);
  WaitUntil(Deadline::After(kLastTurns), [this] { return Idle(); });
}

RpcServer::RpcServer(IoPool& pool, RpcServerOptions options, std::vector<MethodEntry> methods,
                     std::function<std::uint64_t()> epoch,
                     std::function<void(std::uint64_t)> on_newer_epoch) {
  auto shared = std::make_shared<ServerShared>(options.max_request_bytes, options.max_answer_bytes);
  shared->options = std::move(options);
  for (MethodEntry& entry : methods) {
    const Method method = entry.method;
    shared->methods.emplace(method, std::move(entry));
  }
  shared->epoch = std::move(epoch);
  shared->on_newer_epoch = std::move(on_newer_epoch);
  impl_ = std::make_shared<Impl>(pool, std::move(shared));
}

RpcServer::~RpcServer() = default;

Status RpcServer::Start() { return impl_->Start(); }

const std::vector<std::string>& RpcServer::addresses() const { return impl_->addresses(); }

void RpcServer::Stop(Deadline drain) { impl_->Stop(drain); }

const RpcServer::Counters& RpcServer::counters() const { return impl_->shared().counters; }

std::size_t RpcServer::request_bytes() const { return impl_->shared().room.taken(); }

std::size_t RpcServer::answer_bytes() const { return impl_->shared().answers.taken(); }

}  // namespace forebay
