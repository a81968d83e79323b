#pragma once

#include <vector>

#include "cli/table.h"
#include "proto/coordinator.pb.h"

// Jobs as several verbs list them.
namespace forebay {

Table MakeJobTable();
std::vector<Cell> JobRow(const proto::JobStats& job);

}  // namespace forebay
