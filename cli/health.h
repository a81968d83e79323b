#pragma once

#include <vector>

#include "proto/coordinator.pb.h"

namespace forebay {

/// The cluster's alerts, the one that matters first in front: what stops reads before what slows
/// them, before what only one link notices; of the same kind the oldest first. A cluster without a
/// node that is up has the alert no_nodes (since 0: not known), which the coordinator cannot tell
/// from one that is being set up.
std::vector<proto::Alert> AlertsByWeight(const proto::StatsReply& stats);

}  // namespace forebay
