#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// The process's environment, by name.
using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's environment.
Environment ProcessEnvironment();

/// One member of a config struct as text: how it is written and read. Made by the functions of
/// config_values.h; refers to the member, which must outlive it.
struct ConfigValue {
  std::string metavar;     ///< What stands behind the flag in the help: "SIZE". "" for a switch.
  bool is_list = false;    ///< Takes many texts; each source replaces the whole list.
  bool is_switch = false;  ///< The flag alone means true.
  /// Reads the texts (one, unless it is a list) into the member. On kInvalid, whose message quotes
  /// the text, the member keeps its value.
  std::function<Status(const std::vector<std::string>&)> set;
  /// The member as a TOML literal that `set` reads back: `"512MiB"`, `true`, `["a", "b"]`.
  std::function<std::string()> show;
};

/// One row of an option table.
struct ConfigOption {
  ConfigOption(std::string_view section, std::string_view option_key, ConfigValue option_value,
               std::string_view option_help);

  std::string key;           ///< In the file, under [section]: snake_case.
  std::string flag;          ///< "--cache-dir"; for a positional argument its name: "MOUNTPOINT".
  std::string short_flag;    ///< "-f", or "".
  std::string environment;   ///< "FOREBAY_NODE_CACHE_DIR".
  std::string help;          ///< A paragraph: what it is for, what to choose.
  std::string default_text;  ///< For help and documentation.
  std::string origin = "default";
  ConfigValue value;
  bool required = false;
  bool positional = false;

  // For the table: each answers *this, so that a row reads as one statement.
  ConfigOption& Required();
  /// An argument without a flag; those of a program are taken in the order of the table.
  ConfigOption& Positional(std::string_view name);
  ConfigOption& Short(std::string_view name);
  ConfigOption& Flag(std::string_view name);
  /// Replaces the default that is read from the struct, where that depends on the machine.
  ConfigOption& Default(std::string_view text);
};

/// The options under one [name] of the file.
struct ConfigSection {
  ConfigSection(std::string_view section_name, std::string_view section_about)
      : name(section_name), about(section_about) {}

  std::string name;
  std::string about;                 ///< One sentence: whose options these are.
  std::deque<ConfigOption> options;  ///< In the order of the documentation; references stay good.
  /// Called once when every source has been read: fills in what depends on the environment and on
  /// other members, and answers what is wrong between members, one sentence each. May be empty.
  std::function<std::vector<std::string>(const Environment&)> finish;

  ConfigOption& Add(std::string_view key, ConfigValue value, std::string_view help);
};

}  // namespace forebay
