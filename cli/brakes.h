#pragma once

#include "cli/console.h"
#include "cli/outcome.h"
#include "cli/session.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Asks for a change of the brakes (`limit s3`, `pause fills`, `resume fills`) and prints what
/// holds now. kPartly: a member does not know it yet.
Outcome ChangeBrakes(Session& session, const Console& console,
                     const proto::SetFillLimitsRequest& request);

}  // namespace forebay
