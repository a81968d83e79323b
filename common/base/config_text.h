#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/config_option.h"

namespace forebay {

/// `--help`: usage, what the program is, and its options by section, in 80 columns.
std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<ConfigSection>& own);

/// `--print-config`: the values in force as a TOML file, each with its origin behind it.
std::string PrintConfig(const std::vector<ConfigSection>& own);

}  // namespace forebay
