#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/frame.h"
#include "common/wire/rpc.h"

namespace forebay {

class ClientPool;

/// Who was silent for longer is not asked who leads: standbys answer from memory.
inline constexpr std::chrono::milliseconds kStandbyPatience{1000};

/// The address of the coordinator that leads, as the first of `standbys` says that knows; "" = none
/// does.
Task<std::string> LeaderNamedBy(ClientPool& pool, std::vector<std::string> standbys);

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
  /// where none does: kUnavailable or kTimeout, or the leader's own.
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
