#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "cli/console.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// "running", "done", "failed" or "cancelled".
std::string TaskStateName(const proto::TaskState& task);

/// A task as docs/JSON.md has it, without its failures.
boost::json::object TaskJson(const proto::TaskState& task);

/// A background fill that runs, for people: "the rest of imagenet: 34.0 %, 2m left (task t-1)".
std::string FillText(const proto::TaskState& fill);

/// One line for each task.
void PrintTasks(const Console& console, const proto::ListTasksReply& tasks);

/// All about one task, with the report of what failed.
void PrintTask(const Console& console, const proto::TaskState& task);

}  // namespace forebay
