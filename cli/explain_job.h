#pragma once

#include <string>

#include "cli/outcome.h"
#include "cli/verb.h"

namespace forebay {

/// `forebay explain --job ID`: where the job's reads waited, and one sentence of advice. A job that
/// nobody has heard of is exit 1, with the nearest id.
Outcome ExplainJob(VerbContext& context, const std::string& job);

}  // namespace forebay
