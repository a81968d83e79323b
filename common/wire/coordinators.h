#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/frame.h"
#include "common/wire/rpc.h"

namespace forebay {

class CallHandle;
class ClientPool;

/// Who was silent for longer is not asked who leads: standbys answer from memory.
inline constexpr std::chrono::milliseconds kStandbyPatience{1000};

/// The address of the coordinator that leads, as the first of `standbys` says that knows; "" = none
/// does.
Task<std::string> LeaderNamedBy(ClientPool& pool, std::vector<std::string> standbys);

/// Whether the coordinator at the other end refused to be asked at all: its certificate has ended,
/// or its clock is wrong, or it is another cluster's. That says nothing of the question, and
/// another coordinator may answer it. `call` is the one that failed.
bool RefusedToBeAsked(const Error& why, const CallHandle& call);

/// What a round over coordinators comes to in which none answered.
class Unanswered {
 public:
  void Note(const std::string& address, Error why, bool refused);
  /// kDenied only where each refused to be asked, with the first one's reason; else the last
  /// failure of another kind, and who refused. kUnavailable when nobody was asked.
  Error Sum() const;

 private:
  std::optional<Error> silent_;  // the last
  std::optional<Error> denied_;  // the first
  std::string refusals_;
};

/// Finds the coordinator that leads, from the addresses that a program was told: all of them, some,
/// or none but standbys. Begins with the one that answered last; whoever cannot answer is passed
/// over at once, and where nobody of the list does, a standby says who leads. Used on the context
/// of its pool only.
class Coordinators {
 public:
  /// `pool` outlives it.
  Coordinators(ClientPool& pool, std::vector<std::string> addresses)
      : pool_(pool), addresses_(std::move(addresses)) {}

  /// What the coordinator that leads answers; each that is tried has `patience`. The last failure
  /// where none does (Unanswered), or the leader's own.
  Task<Result<RpcReply>> Ask(Method method, const google::protobuf::MessageLite& request,
                             Duration patience);

  /// Whoever answered last is not believed: Ask begins with another one.
  void PassOver();

  /// The address that Ask has had its last answer from, or tries first.
  std::string Current() const;
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  ClientPool& pool_;
  const std::vector<std::string> addresses_;
  std::size_t current_ = 0;
  std::string named_;  // the leader that a standby named, while it answers; "" = of the list
};

}  // namespace forebay
