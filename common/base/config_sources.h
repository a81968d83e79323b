#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/config_loader.h"
#include "common/base/config_option.h"

// The three places that options come from, each read into plain texts; config_loader.cc puts them
// together. Not for anybody else.
namespace forebay {

/// One option as one source gives it.
struct ConfigEntry {
  ConfigOption* option = nullptr;
  std::vector<std::string> texts;
  std::string origin;  ///< "flag --listen", "/etc/forebay/forebay.toml:12".
};

struct ParsedFlags {
  ConfigAction action = ConfigAction::kRun;
  bool readable = true;  ///< False: the command line could not be split, so nothing of it counts.
  std::optional<std::string> config_file;
  std::vector<ConfigEntry> entries;
};

/// Splits the command line; the options that every program has are among the faults' suggestions.
ParsedFlags ReadFlags(const std::vector<std::string>& arguments, std::vector<ConfigSection>& own,
                      std::vector<std::string>& faults);

/// FOREBAY_<SECTION>_<KEY> of all sections. Entries of other programs' sections are dropped after
/// their names are checked.
std::vector<ConfigEntry> ReadEnvironment(const Environment& environment,
                                         std::vector<ConfigSection>& own,
                                         std::vector<ConfigSection>& others,
                                         std::vector<std::string>& faults);

/// The TOML file. A file that is not there is a fault only when `must_exist`.
std::vector<ConfigEntry> ReadConfigFile(const std::string& path, bool must_exist,
                                        const std::vector<ConfigSection*>& sections,
                                        std::vector<std::string>& faults);

/// "a,b" to {"a", "b"}; "" to {}.
std::vector<std::string> SplitList(const std::string& text);

}  // namespace forebay
