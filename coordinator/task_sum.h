#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/coordinator.pb.h"

namespace forebay {

// What is asked of a set runs as a task for each part. Together they are one to the caller: its id
// is theirs with a '+' between, "t-1+t-2", and its counts are their sum.

/// "" ids are left out; "" when none is left.
std::string JoinTaskIds(const std::vector<std::string>& ids);
std::vector<std::string> SplitTaskIds(std::string_view id);

/// The sum of tasks of one kind, of which there is one at least. It runs while one of them does;
/// then it has failed if one has, with that one's reason, else it was cancelled if one was. Its
/// target and link are those of the set.
proto::TaskState SumOfTasks(const std::vector<proto::TaskState>& tasks, const std::string& set);

}  // namespace forebay
