#pragma once

#include "cli/outcome.h"
#include "cli/verb.h"
#include "cli/wait_for_task.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Follows a preload, as WaitForTask does, and prints what it brought: exit 0 when all of it is
/// kept, 3 when the cache has no room for some, 1 when objects failed.
Outcome WaitForPreload(VerbContext& context, const proto::TaskState& task);

}  // namespace forebay
