#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/wire/handshake.h"
#include "common/wire/rpc.h"

namespace forebay {

struct ClientPoolOptions {
  Credentials credentials;
  /// No frame of a call (reply or pending) for so long: kUnavailable. The time until it had a
  /// connection counts, up to the half of it.
  Duration silence = kSilence;
  Duration connect_timeout = kSilence;
  std::size_t connections_per_peer = 1;  ///< Calls are spread over them.
  /// A connection over which nothing was asked for so long is closed.
  Duration unused = kUnusedTimeout;
};

/// What of `silence` the opening of a connection may take, for whoever has a reader waiting: with
/// the half that a call then has at least (ClientPoolOptions::silence) less than it and its half.
constexpr Duration ConnectPart(Duration silence) { return silence * 3 / 4; }

/// From when on a call that `began` then, and that has a connection `now`, counts as silent. A peer
/// that stops after a slow beginning does not cost both waits; one that goes on has time for its
/// first `pending`.
constexpr TimePoint SilentFrom(TimePoint began, TimePoint now, Duration silence) {
  return std::max(began, now - silence / 2);
}

/// How whoever makes a call has it end early, from the context that it runs on.
class CallHandle {
 public:
  /// The call answers kUnavailable soon, and the peer is told. Nothing before it was sent, or after
  /// its end.
  void GiveUp() {
    if (give_up_) give_up_();
  }
  /// False: no connection was had, or the one there is was not asked. After the call's end.
  bool was_sent() const { return give_up_ != nullptr; }
  /// True: what it ended with is the peer's word. Else the peer, where it was asked, may have done
  /// what it was asked for, or may not. After the call's end.
  bool was_answered() const { return was_answered_; }
  /// For the call itself.
  void NoteAnswer(bool answered) { was_answered_ = answered; }
  void Set(std::function<void()> give_up) { give_up_ = std::move(give_up); }

 private:
  std::function<void()> give_up_;
  bool was_answered_ = false;
};

/// Connections to peers, opened when needed and kept while they are used, with many calls in flight
/// on each. One per io_context, and used on that io_context only: no locks, no hand-offs. Several
/// requests (and replies) that wait at the same moment leave in one write.
class ClientPool {
 public:
  /// `epoch` is read for every frame sent; `on_newer_epoch` is called when a peer's is higher.
  ClientPool(asio::io_context& context, ClientPoolOptions options,
             std::function<std::uint64_t()> epoch,
             std::function<void(std::uint64_t)> on_newer_epoch);
  ~ClientPool();
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  /// `address` is "host:port", "[v6]:port" or "unix:/path". Errors: kUnavailable nobody there,
  /// connection lost, or silence; kTimeout the deadline; kDenied the handshake was refused; else
  /// the peer's own answer. A call that ends early sends kCancel. `handle` outlives the call.
  Task<Result<RpcReply>> Call(std::string address, Method method,
                              const google::protobuf::MessageLite& request, Deadline deadline,
                              CallHandle* handle = nullptr);

  /// The same over a connection of its own that takes files: RpcReply::file. `address` is a UNIX
  /// socket.
  Task<Result<RpcReply>> CallForFile(std::string address, Method method,
                                     const google::protobuf::MessageLite& request,
                                     Deadline deadline);

  /// TlsChannelBinding of the connection that the next Call to `address` will use, if it is not
  /// lost in between; "" without TLS. For pools with one connection to a peer. Errors: as Call.
  Task<Result<std::string>> Channel(std::string address, Deadline deadline);

  /// Drops the connections; calls in flight end with kUnavailable.
  void Close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace forebay
