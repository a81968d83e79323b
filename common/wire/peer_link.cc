#include "common/wire/peer_link.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/address.h"
#include "common/wire/opening.h"
#include "common/wire/rpc_rules.h"
#include "common/wire/status_map.h"
#include "common/wire/tcp_options.h"
#include "common/wire/wire_stream.h"
#include "proto/common.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{1000};
/// Times the silence after which a call is given up: a network that loses much gets through sooner
/// over the connection that there is.
constexpr int kLostAfter = 2;

}  // namespace

/// A call's place among those waiting; leaving it early tells the peer.
class PeerLink::Registration {
 public:
  Registration(PeerLink& link, std::uint64_t id) : link_(link.shared_from_this()), id_(id) {}
  ~Registration() {
    auto found = link_->waiting_.find(id_);
    if (found == link_->waiting_.end()) return;
    link_->waiting_.erase(found);
    link_->SendCancel(id_);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const std::shared_ptr<PeerLink> link_;
  const std::uint64_t id_;
};

PeerLink::PeerLink(asio::any_io_executor executor, std::string address,
                   std::shared_ptr<const PeerLinkOptions> options, bool takes_files)
    : executor_(std::move(executor)),
      address_(std::move(address)),
      options_(std::move(options)),
      takes_files_(takes_files),
      connect_done_(executor_) {}

Task<Result<RpcReply>> PeerLink::Call(Method method, std::string message, Deadline deadline,
                                      CallHandle* handle) {
  const std::shared_ptr<PeerLink> self = shared_from_this();
  const TimePoint began = Clock::now();
  used_ = began;
  EndIfOld();
  if (!connection_) {
    Status connected = co_await EnsureConnected(deadline);
    if (!connected) co_return Fail(connected.error());
  }
  Status answerer = CheckAnswerer(method);
  if (!answerer) co_return Fail(answerer.error());
  const std::uint64_t id = next_id_++;
  const TimePoint since = SilentFrom(began, Clock::now(), options_->client.silence);
  auto waiting = std::make_shared<Waiting>(executor_, deadline, since);
  waiting_.emplace(id, waiting);
  const Registration registration(*this, id);
  if (handle != nullptr) {
    handle->Set([link = weak_from_this(), id] {
      const std::shared_ptr<PeerLink> alive = link.lock();
      if (alive) alive->GiveUp(id, Error{Code::kUnavailable, "the answer is not wanted any more"});
    });
  }
  OutFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.method = method;
  frame.header.request_id = id;
  frame.header.deadline_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(deadline.RemainingMs().count(), 1, UINT32_MAX));
  frame.message = std::move(message);
  connection_->Send(std::move(frame));
  connection_->Wake();
  waiting->woken.expires_at(TimePoint::max());
  boost::system::error_code ignored;
  if (!waiting->done)
    co_await waiting->woken.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (handle != nullptr) handle->NoteAnswer(waiting->was_answered);
  co_return std::move(waiting->reply);
}

Task<Result<std::string>> PeerLink::Channel(Deadline deadline) {
  const std::shared_ptr<PeerLink> self = shared_from_this();
  used_ = Clock::now();
  Status connected = co_await EnsureConnected(deadline);
  if (!connected) co_return Fail(connected.error());
  co_return peer_.channel;
}

Task<Status> PeerLink::EnsureConnected(Deadline deadline) {
  while (!connection_) {
    if (closed_) co_return Fail(Code::kUnavailable, "this program is stopping");
    if (!connecting_) {
      if (Clock::now() < retry_at_) co_return Fail(last_failure_);
      connecting_ = true;
      connect_done_.expires_at(TimePoint::max());
      Spawn(executor_, Connect());
    }
    if (deadline.Expired()) co_return Fail(Code::kTimeout, address_ + " was not reached in time");
    asio::steady_timer limit(executor_, deadline.at());
    limit.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
      if (!stopped) self->connect_done_.cancel();
    });
    boost::system::error_code ignored;
    co_await connect_done_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!connection_ && !connecting_) co_return Fail(last_failure_);
  }
  co_return Status();
}

Task<void> PeerLink::Connect() {
  const std::shared_ptr<PeerLink> self = shared_from_this();
  const Deadline deadline = Deadline::After(options_->client.connect_timeout);
  Result<std::unique_ptr<WireStream>> stream = co_await OpenStream(deadline);
  connecting_ = false;
  if (stream && !closed_) {
    pause_ = Duration::zero();
    Adopt(std::move(*stream));
  } else {
    last_failure_ = stream ? Error{Code::kUnavailable, "this program is stopping"}
                           : stream.error().Within(address_);
    pause_ = std::clamp<Duration>(2 * pause_, kFirstPause, kLongestPause);
    retry_at_ = Clock::now() + pause_;
  }
  connect_done_.cancel();
}

Task<Result<std::shared_ptr<StreamSocket>>> PeerLink::ConnectTo(
    std::vector<asio::generic::stream_protocol::endpoint> places, Deadline deadline) {
  boost::system::error_code error;
  for (const auto& place : places) {
    auto socket = std::make_shared<StreamSocket>(executor_);
    error.clear();
    {
      const SocketLimit limit(*socket, deadline);
      co_await socket->async_connect(place, asio::redirect_error(asio::use_awaitable, error));
    }
    // A deadline that fired in the same turn has closed the socket.
    if (error || !socket->is_open()) continue;
    SetTcpOptions(*socket, kLostAfter * options_->client.silence);
    co_return socket;
  }
  const std::string why = error ? error.message() : std::string("timed out");
  co_return Fail(Code::kUnavailable, "nobody answers: " + why);
}

Task<Result<std::unique_ptr<WireStream>>> PeerLink::OpenStream(Deadline deadline) {
  auto places = co_await ResolveAddress(address_, deadline);
  if (!places) co_return Fail(places.error());
  Result<std::shared_ptr<StreamSocket>> socket = co_await ConnectTo(std::move(*places), deadline);
  if (!socket) co_return Fail(socket.error());
  auto stream = std::make_unique<WireStream>(std::move(*socket));
  const Credentials credentials = options_->client.credentials;
  // Before the handshake: what becomes new during it is looked at again.
  opened_at_ = credentials.trust ? credentials.trust->reloads() : 0;
  looked_at_ = credentials.trust ? credentials.trust->standing().revision() : 0;
  Result<OpenedSocket> opened = co_await OpenAsClient(*stream, credentials, deadline);
  if (!opened) co_return Fail(opened.error());
  peer_ = opened->peer;
  if (opened->peer_ring_epoch > options_->epoch())
    options_->on_newer_epoch(opened->peer_ring_epoch);
  co_return stream;
}

/// A member that poses as another: a certificate says who may answer what.
Status PeerLink::CheckAnswerer(Method method) const {
  const RpcRule* rule = RuleOf(method);
  if (!peer_.proved || (rule != nullptr && rule->servers.Has(peer_.role))) return {};
  return Fail(Code::kDenied, address_ + " is " + std::string(RoleWord(peer_.role)) + " " +
                                 peer_.id + ", which does not answer this");
}

/// Once certificates or revocations are new: a peer that was revoked is not talked to any more, nor
/// for long one whose authority is replaced; and what this program proved itself with is replaced
/// before it ends, as soon as nobody waits.
void PeerLink::EndIfOld() {
  const auto& trust = options_->client.credentials.trust;
  if (!connection_ || !trust || !peer_.proved) return;
  const std::uint64_t revision = trust->standing().revision();
  const bool look = std::exchange(looked_at_, revision) != revision;
  const bool refused =
      look && trust->standing().IsRevoked(peer_.role, peer_.id, peer_.terms.issued_unix_s);
  if (look && !trust->standing().IsBelieved(peer_.terms.authority) && !disbelieved_)
    disbelieved_ = Clock::now();
  const bool late = disbelieved_ && Clock::now() - *disbelieved_ >= kLastCalls;
  const bool old = trust->reloads() != opened_at_ && waiting_.empty();
  if (refused || late || old) End("certificates are new");
}

/// No call is lost by it: one that begins registers itself before anything else has its turn, or
/// finds no connection.
void PeerLink::EndIfUnused(TimePoint now) {
  if (!waiting_.empty()) {
    used_ = now;
  } else if (connection_ && now - used_ >= options_->client.unused) {
    End("nothing was asked for a while");
  }
}

void PeerLink::End(const std::string& why) {
  const std::shared_ptr<Connection> connection = connection_;
  OnClosed(Error{Code::kUnavailable, why});
  connection->Close(Error{Code::kUnavailable, why});
}

void PeerLink::Adopt(std::unique_ptr<WireStream> stream) {
  used_ = Clock::now();
  disbelieved_.reset();
  connection_ = std::make_shared<Connection>(std::move(stream), Side::kClient);
  if (takes_files_) connection_->TakeFiles();
  Connection::Events events;
  const std::shared_ptr<PeerLink> self = shared_from_this();
  const Connection* mine = connection_.get();
  events.on_frame = [self](InFrame frame) { self->OnFrame(std::move(frame)); };
  events.on_closed = [self, mine](const Error& why) {
    if (self->connection_.get() == mine) self->OnClosed(why);
  };
  events.on_tick = [self](TimePoint now) { self->OnTick(now); };
  events.busy = [self] { return !self->waiting_.empty(); };
  events.epoch = options_->epoch;
  connection_->Start(std::move(events));
}

void PeerLink::OnFrame(InFrame frame) {
  if (frame.header.ring_epoch > options_->epoch())
    options_->on_newer_epoch(frame.header.ring_epoch);
  const std::uint64_t id = frame.header.request_id;
  if (id == 0 || id >= next_id_) {
    connection_->Close(Error{Code::kCorrupt, "an answer came to a request that was never made"});
    return;
  }
  auto found = waiting_.find(id);
  if (found == waiting_.end()) return;  // given up, or answered twice
  const std::shared_ptr<Waiting> waiting = found->second;
  waiting->last_heard = Clock::now();
  if (frame.header.kind != FrameKind::kReply) return;
  waiting_.erase(found);
  waiting->was_answered = true;
  if (frame.header.code == 0) {
    RpcReply reply;
    reply.message = std::move(frame.message);
    reply.payload = std::move(frame.payload);
    reply.file = std::move(frame.file);
    reply.ring_epoch = frame.header.ring_epoch;
    Finish(*waiting, std::move(reply));
    return;
  }
  proto::ErrorDetail detail;
  Status parsed = ParseMessage(frame.message, detail);
  Finish(*waiting, Fail(CodeOfWire(frame.header.code),
                        parsed ? detail.message() : "the peer gave no reason"));
}

void PeerLink::Finish(Waiting& waiting, Result<RpcReply> reply) {
  waiting.reply = std::move(reply);
  waiting.done = true;
  waiting.woken.cancel();
}

void PeerLink::OnClosed(const Error& why) {
  connection_.reset();
  last_failure_ = why.Within(address_);
  auto lost = std::exchange(waiting_, {});
  for (auto& [id, waiting] : lost)
    Finish(*waiting, Fail(Code::kUnavailable, last_failure_.message));
}

void PeerLink::OnTick(TimePoint now) {
  EndIfOld();
  EndIfUnused(now);
  std::vector<std::pair<std::uint64_t, Error>> over;
  const TimePoint payload = connection_ ? connection_->last_payload() : TimePoint();
  for (const auto& [id, waiting] : waiting_) {
    const TimePoint heard = std::max(waiting->last_heard, payload);
    if (waiting->deadline.Expired(now)) {
      over.emplace_back(id, Error{Code::kTimeout, address_ + " did not answer in time"});
    } else if (now - heard >= options_->client.silence) {
      over.emplace_back(id, Error{Code::kUnavailable, address_ + " is silent"});
    }
  }
  for (auto& [id, error] : over) GiveUp(id, std::move(error));
}

void PeerLink::GiveUp(std::uint64_t id, Error why) {
  auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const std::shared_ptr<Waiting> waiting = found->second;
  waiting_.erase(found);
  SendCancel(id);
  Finish(*waiting, Fail(std::move(why)));
}

void PeerLink::SendCancel(std::uint64_t id) {
  if (!connection_) return;
  OutFrame frame;
  frame.header.kind = FrameKind::kCancel;
  frame.header.request_id = id;
  connection_->Send(std::move(frame));
}

void PeerLink::Close() {
  closed_ = true;
  connect_done_.cancel();
  if (connection_) End("this program is stopping");
}

}  // namespace forebay
