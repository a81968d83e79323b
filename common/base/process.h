#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config_option.h"
#include "common/base/result.h"

// What every program asks of its process. Linux only.
namespace forebay {

/// No core dump and no debugger of another user may see secrets.
void ForbidDumps();

/// Where standard input, output or error is closed, /dev/null takes its number, so that no file or
/// socket gets it: reading finds nothing, and writing fails, as it would without. Before anything
/// is opened.
void HoldStandardStreams();

/// Of a daemon, before anything else: HoldStandardStreams, writing to a closed socket is an error
/// and no signal, new files are for this user alone, as many descriptors as the hard limit allows,
/// and ForbidDumps.
void PrepareProcess();

/// Tells systemd (sd_notify(3)) `state`, such as "READY=1": a datagram to $NOTIFY_SOCKET. Nothing
/// when that is not set; a failure is logged and changes nothing.
void NotifySystemd(const Environment& environment, std::string_view state);
/// The same for what must not be lost, such as "FDSTORE=1" with a descriptor, which stays the
/// caller's; -1 = none. Waits for at most 5 s while systemd is busy. kUnavailable: it does not take
/// it, or NOTIFY_SOCKET is not set. kInvalid: the socket's name is too long.
Status SendToSystemd(const Environment& environment, std::string_view state, int fd);

/// How often systemd's watchdog wants to hear WATCHDOG=1 of this process (sd_watchdog_enabled(3));
/// nothing when it does not watch it.
std::optional<std::chrono::microseconds> WatchdogTime(const Environment& environment);

/// A program's way into the background: the process that was started waits until its child is ready
/// or has failed, so that whoever started it knows.
class Background {
 public:
  /// Forks. In the child: -1. In the parent, when the child is ready or gone: the exit status to
  /// end with; the child's ready line has been printed, unless `quiet`. Before any thread is
  /// started.
  Result<int> Enter(bool quiet);

  /// In the child, once: leaves the terminal and its session, and lets the parent print `line`.
  Status Ready(std::string_view line);

  /// Leaves the terminal and the folder that it was started in.
  static Status LeaveTerminal();

 private:
  int pipe_ = -1;  // the writing end, in the child
};

}  // namespace forebay
