#include "cli/wait_for_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"

namespace forebay {
namespace {

/// Short at first, so that a small task does not cost a noticeable wait.
constexpr std::chrono::milliseconds kFirstPoll{50};
constexpr std::chrono::milliseconds kLongestPoll{500};
/// A task outlives its coordinator's restart; after this long without one the wait ends.
constexpr std::chrono::seconds kCoordinatorAway{60};

// TaskState.state
constexpr std::uint32_t kRunning = 0;
constexpr std::uint32_t kDone = 1;
constexpr std::uint32_t kCancelled = 3;

Outcome Detached(const Console& console, const TaskWait& wait) {
  if (console.json()) {
    PrintDocument(console, wait.detached);
  } else {
    console.out << wait.id << '\n' << std::flush;
  }
  return Exit::kDone;
}

/// The wait ended before the task: Ctrl-C or --timeout.
Outcome Left(VerbContext& context, const TaskWait& wait) {
  const std::string how = fmt::format(
      "`forebay task wait {0}` comes back to it, `forebay task cancel {0}` ends it", wait.id);
  if (!context.session.interrupted()) {
    return std::unexpected(Failure(
        Error{Code::kTimeout, fmt::format("{} is not done within --timeout and goes on as task {}",
                                          wait.subject, wait.id)},
        how, Exit::kTimeout));
  }
  const Console& console = context.console;
  if (console.json()) {
    boost::json::object detached;
    detached["task"] = wait.id;
    detached["hint"] = how;
    boost::json::object line;
    line["detached"] = std::move(detached);
    console.err << JsonText(line) << '\n' << std::flush;
  } else {
    console.err << fmt::format("{} goes on as task {}: {}\n", Escaped(wait.subject), wait.id, how)
                << std::flush;
  }
  return Exit::kInterrupted;
}

Outcome Ended(const TaskWait& wait, const proto::TaskState& task,
              const std::function<Outcome(const proto::TaskState&)>& done) {
  if (task.state() == kDone) return done(task);
  if (task.state() == kCancelled) {
    return std::unexpected(Failure(
        Error{Code::kUnavailable, fmt::format("{}: task {} was cancelled", wait.subject, wait.id)},
        "run the command again", Exit::kFailed));
  }
  return std::unexpected(
      Failure(Error{Code::kUnavailable, fmt::format("{}: {}", wait.subject, task.error())},
              wait.after_failure, Exit::kFailed));
}

}  // namespace

Outcome WaitForTask(VerbContext& context, const TaskWait& wait,
                    const std::function<Outcome(const proto::TaskState&)>& done) {
  if (context.detach) return Detached(context.console, wait);
  Session& session = context.session;
  session.CatchInterrupts();
  TimePoint answered = session.Now();
  Progress progress(context.console, wait.title, answered);
  std::chrono::milliseconds pause = kFirstPoll;
  proto::GetTaskRequest request;
  request.set_id(wait.id);
  for (;;) {
    auto task = Ask<proto::TaskState>(session, Method::kGetTask, request);
    if (session.interrupted() || session.TimedOut()) break;
    if (task && task->state() != kRunning) {
      progress.Clear();
      return Ended(wait, *task, done);
    }
    const TimePoint now = session.Now();
    if (task) {
      answered = now;
      progress.Show({.task = wait.id,
                     .done = task->done(),
                     .total = task->total(),
                     .failed = task->failed(),
                     .bytes = task->bytes(),
                     .waiting = task->waiting()},
                    now);
    } else if (task.error().error.code != Code::kUnavailable ||
               now - answered >= kCoordinatorAway) {
      progress.Clear();
      return std::unexpected(task.error());
    }
    if (!session.Pause(pause) || session.TimedOut()) break;
    pause = std::min(2 * pause, kLongestPoll);
  }
  progress.Clear();
  return Left(context, wait);
}

}  // namespace forebay
