#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>

#include "cli/outcome.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// A task that a verb has started or was told to follow.
struct TaskWait {
  std::string id;
  std::string subject;  ///< Begins sentences about it: "link 'imagenet'".
  ProgressTitle title;
  /// What -o json prints with --detach.
  boost::json::object detached = {};
  std::string after_failure = "correct the cause and run the command again";  ///< What to do.
};

/// How verbs of VerbKind::kTask end. With --detach prints the id and answers 0. Else shows the
/// progress until the task has ended, over restarts of the coordinator, and answers:
///   - what `done` answers about the task that is done;
///   - exit 1 with the task's reason when it failed or was cancelled;
///   - exit 130 after Ctrl-C and exit 4 after --timeout: the task goes on, and stderr says how to
///     come back to it and how to end it.
Outcome WaitForTask(VerbContext& context, const TaskWait& wait,
                    const std::function<Outcome(const proto::TaskState&)>& done);

}  // namespace forebay
