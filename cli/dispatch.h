#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/outcome.h"
#include "cli/rpc_session.h"
#include "cli/target.h"

namespace forebay {

/// What the program takes from its surroundings.
struct Surroundings {
  Console& console;
  LocalView local;
  std::string coordinators;  ///< FOREBAY_COORDINATOR, "" = unset.
  std::function<std::unique_ptr<Session>(RpcSession::Options)> connect;
};

/// RunCli without the process around it. `words` come after the program's name.
Exit Dispatch(const std::vector<std::string>& words, Surroundings surroundings);

}  // namespace forebay
