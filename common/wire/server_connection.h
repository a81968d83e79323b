#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/deadline.h"
#include "common/wire/connection.h"
#include "common/wire/half_open.h"
#include "common/wire/request_room.h"
#include "common/wire/server.h"

namespace forebay {

/// What the connections of one server share. Thread-safe; outlives them.
struct ServerShared {
  explicit ServerShared(std::size_t max_request_bytes) : room(max_request_bytes) {}

  RpcServerOptions options;
  std::unordered_map<Method, MethodEntry> methods;
  std::function<std::uint64_t()> epoch;
  std::function<void(std::uint64_t)> on_newer_epoch;
  RpcServer::Counters counters;
  RequestRoom room;
  std::atomic<bool> draining{false};
};

/// The calls of one connection. On its io_context only, but for Finish and Shutdown.
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  /// A stranger, who has proved nothing, stays in `place`, and is closed after a while.
  ServerConnection(std::shared_ptr<ServerShared> shared, PeerIdentity peer,
                   std::unique_ptr<WireStream> stream, std::optional<HalfOpen::Place> place);

  void Start();
  /// Any thread: takes no more requests, closes when the client has had the answers so far.
  void Finish();
  /// Any thread: closes the connection, cancels its calls.
  void Shutdown();

 private:
  struct ActiveCall {
    asio::cancellation_signal cancel;
    TimePoint next_pending;
    std::size_t bytes = 0;  ///< Of the request, which is kept until the call ends.
    bool audited = false;
    std::string said;  ///< What the log will say when it has ended; "" = the handler says it.
  };

  void OnFrame(InFrame frame);
  void OnRequest(InFrame frame);
  static Task<void> Run(std::shared_ptr<ServerConnection> self, std::uint64_t id,
                        std::shared_ptr<ActiveCall> call, Task<Result<RpcReply>> handling);
  void Answer(std::uint64_t id, const Result<RpcReply>& result);
  void Audit(const ActiveCall& call, const Result<RpcReply>& result);
  void OnEnd(std::uint64_t id, const ActiveCall& call, std::exception_ptr escaped,
             Result<RpcReply> result);
  void OnTick(TimePoint now);
  void OnClosed(const Error& why);
  /// Closes it when the peer is believed no more; answers whether it is so.
  bool EndIfRefused();
  bool IsStranger() const { return peer_.role == proto::ROLE_STRANGER; }
  static Task<Result<RpcReply>> Refuse(Error why);
  bool HasRoom(ActiveCall& call, std::size_t bytes);
  Task<Result<RpcReply>> Handle(const FrameHeader& header, std::string message);

  const std::shared_ptr<ServerShared> shared_;
  const PeerIdentity peer_;
  const TimePoint opened_ = Clock::now();
  std::optional<HalfOpen::Place> place_;  // a stranger's, until it is closed
  const asio::any_io_executor executor_;
  std::shared_ptr<Connection> connection_;
  bool denied_ = false;       // said so already
  std::uint64_t looked_ = 0;  // Standing::revision at which the peer was looked at
  std::unordered_map<std::uint64_t, std::shared_ptr<ActiveCall>> calls_;
  std::size_t request_bytes_ = 0;  // of calls_
};

}  // namespace forebay
