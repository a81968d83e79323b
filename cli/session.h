#pragma once

#include <string>
#include <utility>

#include "cli/outcome.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/frame.h"
#include "common/wire/rpc.h"

namespace forebay {

/// What a verb needs of the world: a coordinator to ask and time that passes. RpcSession in the
/// program; tests script it. One thread.
class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Asks the coordinator and waits, at most until --timeout. Errors: kUnavailable with exit 1 and
  /// a hint when no coordinator answers; kTimeout with exit 4 after --timeout; else what the
  /// coordinator answered.
  virtual std::expected<RpcReply, Failure> Call(Method method,
                                                const google::protobuf::MessageLite& request) = 0;

  /// Before the first Call: as whose certificates are in that folder, not the user's own.
  virtual void ShowCertificatesOf(const std::string& /*folder*/) {}

  /// The coordinator that answered last, or the configured ones before the first answer.
  virtual std::string Address() const = 0;

  /// From now on Ctrl-C no longer ends the program: it ends a Pause or a Call early.
  virtual void CatchInterrupts() = 0;
  virtual bool interrupted() const = 0;

  /// Waits, but not beyond --timeout. False after Ctrl-C.
  virtual bool Pause(Duration duration) = 0;
  /// --timeout has passed.
  virtual bool TimedOut() const = 0;
  virtual TimePoint Now() const = 0;
};

/// Session::Call, with the reply read.
template <typename Reply>
std::expected<Reply, Failure> Ask(Session& session, Method method,
                                  const google::protobuf::MessageLite& request) {
  std::expected<RpcReply, Failure> answer = session.Call(method, request);
  if (!answer) return std::unexpected(std::move(answer.error()));
  Reply reply;
  Status parsed = ParseMessage(answer->message, reply);
  if (!parsed) {
    return std::unexpected(Failure(parsed.error().Within("reading the coordinator's answer"),
                                   "install matching versions of forebay and the coordinator",
                                   Exit::kFailed));
  }
  return reply;
}

}  // namespace forebay
