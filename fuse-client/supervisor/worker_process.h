#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/config_option.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// How a worker is started.
struct WorkerCommand {
  std::vector<std::string> arguments;  ///< As `ps` shows them, with the program's name.
  Environment environment;
  std::string config;  ///< A configuration file: all options in force.
};

/// The first argument of a worker, by which the program knows that it is one.
inline constexpr const char* kWorkerArgument = "--worker-of-a-mount";

/// A child process that serves, or is to.
class WorkerProcess {
 public:
  /// Runs the file `program`, in a session of its own: what a terminal sends goes to the supervisor
  /// alone. kInternal: no memory, no processes.
  static Result<WorkerProcess> Start(int program, const WorkerCommand& command);

  pid_t pid() const { return pid_; }
  const HandoverChannel& channel() const { return channel_; }
  TimePoint started() const { return started_; }
  void Kill(int number) const;

  /// When it has said so.
  std::optional<TimePoint> ready_at;
  /// Its exit code, when it has said that the mount has ended.
  std::optional<int> finished;

 private:
  WorkerProcess(pid_t pid, HandoverChannel channel)
      : pid_(pid), channel_(std::move(channel)), started_(Clock::now()) {}

  pid_t pid_;
  HandoverChannel channel_;
  TimePoint started_;
};

}  // namespace forebay
