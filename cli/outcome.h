#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "common/base/result.h"

namespace forebay {

/// The exit codes that scripts rely on.
enum class Exit : std::uint8_t {
  kDone = 0,    ///< `check`: all cached; `status`: healthy.
  kFailed = 1,  ///< It was tried and did not work.
  kUsage = 2,   ///< The command itself is wrong; nothing was done.
  kPartly = 3,  ///< `check`: partly cached; `status`: degraded; `evict`: some nodes did not answer.
  kTimeout = 4,        ///< Not reached in --timeout.
  kInterrupted = 130,  ///< Ctrl-C while waiting: as a shell reports SIGINT.
};

/// Why a verb did not do its work. An Error becomes one by itself; its code then decides exit code
/// and hint.
struct Failure {
  Error error;
  std::string hint;          ///< What to do next; "" = what HintFor(error.code) says.
  std::optional<Exit> exit;  ///< Unset = kUsage for kInvalid, else kFailed.

  // Implicit, so that `return Fail(…)` works in verbs as everywhere else.
  Failure(Error why) : error(std::move(why)) {}
  Failure(Error why, std::string what_to_do, std::optional<Exit> code = std::nullopt)
      : error(std::move(why)), hint(std::move(what_to_do)), exit(code) {}

  Exit ExitCode() const {
    return exit.value_or(error.code == Code::kInvalid ? Exit::kUsage : Exit::kFailed);
  }
};

/// `failure`; where it is that there is no such thing, with the verb that lists those.
inline std::unexpected<Failure> OrAmong(Failure failure, std::string_view verb) {
  if (failure.error.code == Code::kNotFound && failure.hint.empty())
    failure.hint = "`forebay " + std::string(verb) + "` shows which there are";
  return std::unexpected(std::move(failure));
}

using Outcome = std::expected<Exit, Failure>;

/// The command was wrong: exit 2.
inline std::unexpected<Failure> UsageError(std::string message, std::string hint = "") {
  return std::unexpected(
      Failure(Error{Code::kInvalid, std::move(message)}, std::move(hint), Exit::kUsage));
}

}  // namespace forebay
