#pragma once

#include "cli/console.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// The nodes as `nodes` and `stats --nodes` print them; a sentence when there are none.
void PrintNodes(const Console& console, const proto::StatsReply& stats);

}  // namespace forebay
