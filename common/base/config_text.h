#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/config_option.h"

namespace forebay {

/// `--help`: usage, what the program is, and its options by section, in 80 columns.
std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<ConfigSection>& own);

/// A flag that every program has beside its tables; `help` is a sentence.
struct GeneralFlag {
  std::string_view flag;
  std::string_view help;
};
inline constexpr GeneralFlag kGeneralFlags[] = {
    {"--config FILE", "The TOML file to read (default /etc/forebay/forebay.toml)."},
    {"--print-config", "Print the values in force and where each came from."},
    {"--check-config", "Print what is wrong with the configuration, and exit."},
    {"--version", "Print the version."},
    {"-h, --help", "Print this text."},
};

/// Which source counts.
inline constexpr std::string_view kPrecedence =
    "A flag goes before the environment (FOREBAY_<SECTION>_<KEY>), that before the file, that "
    "before the default.";

/// `--print-config`: the values in force as a TOML file, each with its origin behind it.
std::string PrintConfig(const std::vector<ConfigSection>& own);

}  // namespace forebay
