#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/config_option.h"

namespace forebay {

/// Where `--config` does not point elsewhere; it need not exist.
inline constexpr const char* kDefaultConfigFile = "/etc/forebay/forebay.toml";

/// What a program is configured from.
struct ConfigSources {
  std::vector<std::string> arguments;  ///< Without the program's name.
  Environment environment;
  std::string default_file = kDefaultConfigFile;
};

/// What the command line asks for.
enum class ConfigAction : std::uint8_t { kRun, kHelp, kVersion, kPrintConfig, kCheckConfig };

struct ConfigOutcome {
  ConfigAction action = ConfigAction::kRun;
  /// Everything that is wrong, one line each: where, what, and what to do. Not looked at for help
  /// and version.
  std::vector<std::string> faults;
};

/// Reads all sources into the members that `own` refers to: flag over environment over file over
/// default; each option remembers its origin. `others` are the sections of other programs that may
/// stand in the same file: their keys and values are checked and otherwise ignored.
ConfigOutcome LoadConfig(const ConfigSources& sources, std::vector<ConfigSection>& own,
                         std::vector<ConfigSection>& others);

/// An option that two readings of the configuration differ in; values as TOML literals.
struct ConfigChange {
  std::string section;
  std::string key;
  std::string before;
  std::string now;
};

/// What is another value in `now` than in `before`, in the order of the tables, which are of the
/// same program.
std::vector<ConfigChange> ChangesBetween(const std::vector<ConfigSection>& before,
                                         const std::vector<ConfigSection>& now);

}  // namespace forebay
