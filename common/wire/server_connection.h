#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/deadline.h"
#include "common/base/line_brake.h"
#include "common/wire/connection.h"
#include "common/wire/half_open.h"
#include "common/wire/member_share.h"
#include "common/wire/reply_room.h"
#include "common/wire/request_room.h"
#include "common/wire/server.h"

namespace forebay {

/// What the connections of one server share. Thread-safe; outlives them.
struct ServerShared {
  ServerShared(std::size_t max_request_bytes, std::size_t max_answer_bytes)
      : room(max_request_bytes), answers(max_answer_bytes) {}

  RpcServerOptions options;
  std::unordered_map<Method, MethodEntry> methods;
  std::function<std::uint64_t()> epoch;
  std::function<void(std::uint64_t)> on_newer_epoch;
  RpcServer::Counters counters;
  RequestRoom room;
  ReplyRoom answers;  ///< Their messages; who makes a payload counts it.
  std::atomic<bool> draining{false};
  LineBrake refusals;  ///< Of those who have proved nothing.
  LineBrake closings;  ///< Of members.

  /// A line in the log, as far as `brake` lets it through.
  static void Warn(LineBrake& brake, const std::string& line);
};

/// The calls of one connection. On its io_context only, but for Finish and Shutdown.
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  /// What it takes of a server's room until it is closed.
  struct Room {
    std::optional<MemberShare::Place> share;
    std::optional<HalfOpen::Place> place;
  };
  ServerConnection(std::shared_ptr<ServerShared> shared, PeerIdentity peer,
                   std::unique_ptr<WireStream> stream, Room room);

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
    bool renews = false;
    std::string said;  ///< What the log will say when it has ended; "" = the handler says it.
  };

  void OnFrame(InFrame frame);
  void OnRequest(InFrame frame);
  static Task<void> Run(std::shared_ptr<ServerConnection> self, std::uint64_t id,
                        std::shared_ptr<ActiveCall> call, Task<Result<RpcReply>> handling);
  void Answer(std::uint64_t id, const Result<RpcReply>& result);
  bool TakesFew() const;
  bool CountAnswer(OutFrame& frame);
  void Audit(const ActiveCall& call, const Result<RpcReply>& result);
  void OnEnd(std::uint64_t id, const ActiveCall& call, std::exception_ptr escaped,
             Result<RpcReply> result);
  void OnTick(TimePoint now);
  void OnClosed(const Error& why);
  /// Closes it when the peer is believed no more; answers whether it is so.
  bool EndIfRefused();
  /// Whether it ends now: when nothing is under way, or what led to it is long ago.
  bool EndSoon(std::int64_t since_s, const char* why);
  /// The peer is to come again; one that does not go is closed by a later tick.
  void End();
  bool IsStranger() const { return peer_.role == proto::ROLE_STRANGER; }
  static Task<Result<RpcReply>> Refuse(Error why);
  bool HasRoom(ActiveCall& call, std::size_t bytes);
  Task<Result<RpcReply>> Handle(const FrameHeader& header, std::string message);

  const std::shared_ptr<ServerShared> shared_;
  const PeerIdentity peer_;
  const ReplyRoom::Payer payer_;
  const TimePoint opened_ = Clock::now();
  Room room_;
  const asio::any_io_executor executor_;
  std::shared_ptr<Connection> connection_;
  bool denied_ = false;                             // said so already
  bool has_renewed_ = false;                        // a peer that was late
  std::optional<TimePoint> ended_;                  // when the peer was first told to go
  std::optional<std::int64_t> disbelieved_unix_s_;  // its authority is believed no more since
  std::uint64_t looked_ = 0;  // Standing::revision at which the peer was looked at
  std::unordered_map<std::uint64_t, std::shared_ptr<ActiveCall>> calls_;
  std::size_t request_bytes_ = 0;  // of calls_
};

}  // namespace forebay
