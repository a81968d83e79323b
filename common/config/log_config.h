#pragma once

#include "common/base/log.h"

namespace forebay {

struct ConfigSection;

/// How a program logs, [log] in the file. What each means is in LogSection (log_config.cc) and
/// docs/CONFIGURATION.md.
using LogConfig = LogOptions;

/// The table of the members of `config`, which must outlive it.
ConfigSection LogSection(LogConfig& config);

}  // namespace forebay
