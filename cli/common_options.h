#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/options.h"
#include "cli/verb.h"

// The options that verbs do not declare themselves. Both functions refer to `line` and `output`,
// which must stay where they are as long as the options are used.
namespace forebay {

inline constexpr const char* kDefaultCoordinator = "127.0.0.1:7440";

/// HOST:PORT or unix:PATH, separated by commas. kInvalid.
Status TakeCoordinators(const std::string& text, std::vector<std::string>& out);

/// Those of every verb.
Options GlobalOptions(CommandLine& line, OutputFormat& output);

/// What the verb declares, and what its kind adds.
Options VerbOptions(const VerbRow& row, Verb& verb, CommandLine& line);

}  // namespace forebay
