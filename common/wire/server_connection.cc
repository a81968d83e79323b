#include "common/wire/server_connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/wire/audit.h"
#include "common/wire/rpc_rules.h"
#include "common/wire/status_map.h"
#include "common/wire/wire_stream.h"
#include "proto/common.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::hours kLongestDeadline{48};
// A machine that joins asks once.
constexpr std::chrono::seconds kStrangerStays{30};

/// A message of this size is not counted, while no more than that much waits for the peer: so a hit
/// is not.
constexpr std::size_t kSmallMessage = std::size_t{4} << 10;
constexpr std::size_t kFewUnsent = std::size_t{64} << 10;
/// What a frame in a queue takes beside its message.
constexpr std::size_t kFrameBytes = 256;

Error Escaped(const std::exception_ptr& escaped) {
  try {
    std::rethrow_exception(escaped);
  } catch (const boost::system::system_error& e) {
    if (e.code() == asio::error::operation_aborted) {
      return Error{Code::kUnavailable, "the call was cancelled"};
    }
    return Error{Code::kInternal, e.what()};
  } catch (const std::exception& e) {
    return Error{Code::kInternal, e.what()};
  }
}

std::string NumberOf(Method method) { return std::to_string(static_cast<unsigned>(method)); }

/// What a peer is told whose role may not make the request to `program`.
Error NotForRole(const PeerIdentity& peer, const RpcRule& rule, const std::string& program) {
  const bool is_viewer = peer.role == proto::ROLE_VIEWER;
  if (is_viewer && rule.callers.Has(peer.role))
    return Error{Code::kDenied, program + " answers no viewer: coordinators do"};
  if (is_viewer && rule.callers.Has(proto::ROLE_ADMIN)) return OnlyLooks(peer, rule.name);
  return Error{Code::kDenied, program + " does not let " + peer.program + " make request " +
                                  NumberOf(rule.method)};
}

OutFrame FrameOf(std::uint64_t id, const Result<RpcReply>& result) {
  OutFrame frame;
  frame.header.kind = FrameKind::kReply;
  frame.header.request_id = id;
  if (result) {
    frame.message = result->message;
    frame.payload = result->payload;
    frame.file = result->file;
  } else {
    // A reason is a sentence; what is longer is cut so that it always fits into a frame.
    constexpr std::size_t kLongestReason = 4096;
    proto::ErrorDetail detail;
    detail.set_message(result.error().message.substr(0, kLongestReason));
    frame.header.code = WireCodeOf(result.error().code);
    frame.message = detail.SerializeAsString();
  }
  return frame;
}

}  // namespace

void ServerShared::Warn(LineBrake& brake, const std::string& line) {
  const std::optional<std::uint64_t> unsaid = brake.MaySay(Clock::now());
  if (!unsaid) return;
  if (*unsaid == 0) {
    spdlog::warn("{}", line);
  } else {
    spdlog::warn("{} ({} more like this since the last line)", line, *unsaid);
  }
}

ServerConnection::ServerConnection(std::shared_ptr<ServerShared> shared, PeerIdentity peer,
                                   std::unique_ptr<WireStream> stream, Room room)
    : shared_(std::move(shared)),
      peer_(std::move(peer)),
      payer_(ReplyRoom::PayerOf(peer_)),
      room_(std::move(room)),
      executor_(stream->socket().get_executor()),
      connection_(std::make_shared<Connection>(
          std::move(stream), Side::kServer,
          ConnectionTimes{.first_frame = shared_->options.first_frame_timeout})) {}

void ServerConnection::Start() {
  const std::shared_ptr<ServerConnection> self = shared_from_this();
  Connection::Events events;
  events.on_frame = [self](InFrame frame) { self->OnFrame(std::move(frame)); };
  events.on_closed = [self](const Error& why) { self->OnClosed(why); };
  events.on_tick = [self](TimePoint now) { self->OnTick(now); };
  events.busy = [self] { return !self->calls_.empty(); };
  events.epoch = shared_->epoch;
  connection_->Start(std::move(events));
}

void ServerConnection::Finish() {
  asio::post(executor_, [self = shared_from_this()] { self->connection_->Finish(); });
}

void ServerConnection::Shutdown() {
  asio::post(executor_, [self = shared_from_this()] {
    self->connection_->Close(Error{Code::kUnavailable, "the server is stopping"});
  });
}

/// A revocation ends it at once; the end of the certificate, or of the authority that issued it,
/// when nothing is under way, so that the peer comes again with a new one and loses no answer.
bool ServerConnection::EndIfRefused() {
  const auto& trust = shared_->options.credentials.trust;
  if (!trust || !peer_.proved) return false;
  const PeerTerms& terms = peer_.terms;
  const std::int64_t now = UnixSeconds();
  const std::uint64_t revision = trust->standing().revision();
  if (std::exchange(looked_, revision) != revision) {
    if (trust->standing().IsRevoked(peer_.role, peer_.id, terms.issued_unix_s)) {
      connection_->Close(Error{Code::kDenied, "its certificate was revoked"});
      return true;
    }
    if (!trust->standing().IsBelieved(terms.authority) && !disbelieved_unix_s_)
      disbelieved_unix_s_ = now;
  }
  if (disbelieved_unix_s_)
    return EndSoon(now - *disbelieved_unix_s_, "the authority of its certificate is replaced");
  if (now < terms.ends_unix_s || terms.late) return false;
  if (trust->standing().Excuses(terms.ends_unix_s, now)) return false;
  return EndSoon(now - terms.ends_unix_s, "its certificate has ended");
}

bool ServerConnection::EndSoon(std::int64_t since_s, const char* why) {
  if (calls_.empty()) {
    End();
    return true;
  }
  if (since_s < std::chrono::seconds(kLastCalls).count()) return false;
  connection_->Close(Error{Code::kDenied, why});
  return true;
}

void ServerConnection::End() {
  if (!ended_) ended_ = Clock::now();
  connection_->Finish();
}

void ServerConnection::OnFrame(InFrame frame) {
  if (EndIfRefused()) return;
  // What a stranger says of the ring is not believed.
  if (frame.header.ring_epoch > shared_->epoch() && !IsStranger())
    shared_->on_newer_epoch(frame.header.ring_epoch);
  if (frame.header.kind == FrameKind::kRequest) {
    OnRequest(std::move(frame));
    return;
  }
  // Of what clients send, only a cancel comes here else.
  auto found = calls_.find(frame.header.request_id);
  if (found == calls_.end()) return;
  const std::shared_ptr<ActiveCall> call = found->second;
  call->cancel.emit(asio::cancellation_type::terminal);
}

Task<Result<RpcReply>> ServerConnection::Refuse(Error why) { co_return Fail(std::move(why)); }

/// What a peer asks is kept until it is answered: of one peer, and of all of them, it is bounded.
bool ServerConnection::HasRoom(ActiveCall& call, std::size_t bytes) {
  const std::size_t most =
      IsStranger() ? kMaxRequestBytesOfStranger : kMaxRequestBytesPerConnection;
  const bool fits = calls_.size() < kMaxCallsPerConnection && bytes <= most - request_bytes_;
  if (!fits || !shared_->room.Take(bytes)) return false;
  call.bytes = bytes;
  request_bytes_ += bytes;
  return true;
}

Task<Result<RpcReply>> ServerConnection::Handle(const FrameHeader& header, std::string message) {
  if (shared_->draining.load(std::memory_order_acquire)) {
    return Refuse(Error{Code::kUnavailable, shared_->options.credentials.program + " is stopping"});
  }
  auto entry = shared_->methods.find(header.method);
  const RpcRule* rule = RuleOf(header.method);
  const Credentials& self = shared_->options.credentials;
  const bool known = entry != shared_->methods.end() && rule != nullptr;
  if (!known || !MayAsk(*rule, peer_.role, self.role)) {
    shared_->counters.calls_denied.fetch_add(1, std::memory_order_relaxed);
    // Once: a line for each would let a peer fill the disk.
    if (known && !std::exchange(denied_, true))
      spdlog::warn("refused: {}: this role may not", DescribeAudited(*rule, peer_, {}));
    return Refuse(
        known ? NotForRole(peer_, *rule, self.program)
              : Error{Code::kInvalid, self.program + " has no request " + NumberOf(header.method)});
  }
  if (peer_.terms.late && header.method != Method::kRenew) {
    return Refuse(Error{Code::kDenied, "the certificate of " + peer_.id + " ended at " +
                                           DescribeTime(peer_.terms.ends_unix_s) +
                                           ": it has to be renewed first"});
  }
  RpcCall call;
  call.method = header.method;
  call.message = std::move(message);
  const std::chrono::milliseconds time(header.deadline_ms);
  call.deadline = Deadline::After(std::min<std::chrono::milliseconds>(time, kLongestDeadline));
  call.ring_epoch = header.ring_epoch;
  call.peer = peer_;
  call.takes_files = connection_->PassesFiles();
  return entry->second.handler(std::move(call));
}

void ServerConnection::OnRequest(InFrame frame) {
  const std::uint64_t id = frame.header.request_id;
  if (calls_.contains(id)) {
    connection_->Close(Error{Code::kCorrupt, "two requests carry the same number"});
    return;
  }
  shared_->counters.calls.fetch_add(1, std::memory_order_relaxed);
  shared_->counters.calls_in_flight.fetch_add(1, std::memory_order_relaxed);
  auto call = std::make_shared<ActiveCall>();
  call->renews = frame.header.method == Method::kRenew;
  const RpcRule* rule = RuleOf(frame.header.method);
  call->audited = rule != nullptr && IsAudited(*rule, peer_.role);
  if (call->audited && rule->effect != Effect::kChangesAndSays)
    call->said = DescribeAudited(*rule, peer_, frame.message);
  const bool has_room = HasRoom(*call, frame.message.size());
  if (!has_room) shared_->counters.calls_overloaded.fetch_add(1, std::memory_order_relaxed);
  Task<Result<RpcReply>> handling =
      has_room ? Handle(frame.header, std::move(frame.message))
               : Refuse(Error{Code::kOverloaded, "too many requests wait for an answer"});
  call->next_pending = Clock::now() + kPendingAfter;
  calls_.emplace(id, call);
  connection_->Wake();
  // The signal, which the coroutine refers to until its very end, is a part of `call`.
  const auto ended = [call](const std::exception_ptr& escaped) {
    if (escaped) std::rethrow_exception(escaped);
  };
  asio::co_spawn(executor_, Run(shared_from_this(), id, call, std::move(handling)),
                 asio::bind_cancellation_slot(call->cancel.slot(), ended));
}

/// The call until its answer is on its way: for a hit that is before OnRequest returns.
Task<void> ServerConnection::Run(std::shared_ptr<ServerConnection> self, std::uint64_t id,
                                 std::shared_ptr<ActiveCall> call,
                                 Task<Result<RpcReply>> handling) {
  std::exception_ptr escaped;
  Result<RpcReply> result = Fail(Code::kInternal, "the call has no answer");
  try {
    result = co_await std::move(handling);
  } catch (...) {
    escaped = std::current_exception();
  }
  self->OnEnd(id, *call, std::move(escaped), std::move(result));
}

void ServerConnection::Audit(const ActiveCall& call, const Result<RpcReply>& result) {
  if (!call.audited) return;
  auto& counters = shared_->counters;
  (result ? counters.audited_done : counters.audited_failed)
      .fetch_add(1, std::memory_order_relaxed);
  if (!call.said.empty()) LogAudited(call.said, result);
}

void ServerConnection::OnEnd(std::uint64_t id, const ActiveCall& call, std::exception_ptr escaped,
                             Result<RpcReply> result) {
  shared_->counters.calls_in_flight.fetch_sub(1, std::memory_order_relaxed);
  calls_.erase(id);
  request_bytes_ -= call.bytes;
  shared_->room.Give(call.bytes);
  if (escaped) {
    Error why = Escaped(escaped);
    if (why.code == Code::kInternal)
      spdlog::error("a request failed with an exception: {}", why.message);
    result = Fail(std::move(why));
  }
  Audit(call, result);
  if (!connection_->closed()) Answer(id, result);
  // It comes again with what it got. Not after what it may not ask: its renewal may be on its way.
  has_renewed_ = has_renewed_ || call.renews;
  if (peer_.terms.late && has_renewed_ && calls_.empty()) End();
}

bool ServerConnection::TakesFew() const { return connection_->unsent_bytes() > kFewUnsent; }

/// The message takes room until its last byte has left. False: there is none.
bool ServerConnection::CountAnswer(OutFrame& frame) {
  if (!TakesFew() && frame.message.size() <= kSmallMessage) return true;
  struct Kept {
    std::shared_ptr<ServerShared> shared;  // outlives the place
    ReplyRoom::Place place;
    std::shared_ptr<const void> payload;
  };
  ReplyRoom::Place place = shared_->answers.Take(payer_, frame.message.size() + kFrameBytes);
  if (!place.taken()) return false;
  auto kept = std::make_shared<Kept>(shared_, std::move(place), std::move(frame.payload.owner));
  frame.payload.owner = std::move(kept);
  return true;
}

void ServerConnection::Answer(std::uint64_t id, const Result<RpcReply>& result) {
  OutFrame frame = FrameOf(id, result);
  if (!CountAnswer(frame)) {
    shared_->counters.calls_overloaded.fetch_add(1, std::memory_order_relaxed);
    const Error full{Code::kOverloaded, "answers that nobody takes fill the memory for them"};
    // That is its own doing, and a refusal would take memory as well.
    if (TakesFew()) return connection_->Close(full);
    frame = FrameOf(id, Fail(full));
  }
  connection_->Send(std::move(frame));
}

void ServerConnection::OnTick(TimePoint now) {
  if (IsStranger() && now - opened_ > kStrangerStays) {
    connection_->Close(Error{Code::kTimeout, "a machine without a certificate stayed too long"});
    return;
  }
  if (ended_ && now - *ended_ > shared_->options.end_timeout) {
    connection_->Close(Error{Code::kTimeout, "it ended, and the peer does not close it"});
    return;
  }
  if (EndIfRefused()) return;
  for (const auto& [id, call] : calls_) {
    if (now < call->next_pending) continue;
    call->next_pending = now + kPendingEvery;
    OutFrame frame;
    frame.header.kind = FrameKind::kPending;
    frame.header.request_id = id;
    connection_->Send(std::move(frame));
  }
}

void ServerConnection::OnClosed(const Error& why) {
  room_.share.reset();
  room_.place.reset();
  shared_->counters.connections.fetch_sub(1, std::memory_order_relaxed);
  const bool is_corrupt = why.code == Code::kCorrupt;
  if (is_corrupt) shared_->counters.protocol_errors.fetch_add(1, std::memory_order_relaxed);
  if (is_corrupt || why.code == Code::kDenied) {
    ServerShared::Warn(IsStranger() ? shared_->refusals : shared_->closings,
                       "closed the connection of " + peer_.program + ": " + why.message);
  }
  // Cancelling may end calls, which changes the map.
  std::vector<std::shared_ptr<ActiveCall>> calls;
  calls.reserve(calls_.size());
  for (const auto& [id, call] : calls_) calls.push_back(call);
  for (const auto& call : calls) call->cancel.emit(asio::cancellation_type::terminal);
}

}  // namespace forebay
