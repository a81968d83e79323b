#pragma once

#include <string>

#include "cli/verb.h"

namespace forebay {

/// The text of `forebay --help`.
std::string ProgramHelp();
/// The text of `forebay VERB --help`.
std::string VerbHelp(const VerbRow& row);

/// "forebay evict TARGET [OPTIONS]".
std::string Synopsis(const VerbRow& row, const Options& options);

}  // namespace forebay
