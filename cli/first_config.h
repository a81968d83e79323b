#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// A key of forebay.toml; the value as TOML.
struct Setting {
  std::string section;
  std::string key;
  std::string value;

  bool operator==(const Setting&) const = default;
};

/// Those that mean something together alone, such as an address to listen on and the one to tell
/// others: where one is set, none is added.
using SettingGroup = std::vector<Setting>;

/// What was made of a configuration.
struct CompletedConfig {
  std::string path;
  std::string text;
  std::vector<Setting> added;
  std::vector<Setting> kept;  ///< Set otherwise than was wanted; with the values that are there.
};

/// `text`, the configuration at `path`, with what it lacks of `wanted`: below the section's name
/// where the file has that, else at its end, under a comment that says `by` whom. What is set
/// already, and every other line, stays as it is. kInvalid: it is no TOML, or a section is written
/// in a way that no line can be added to.
Result<CompletedConfig> CompleteConfig(std::string_view text, std::string path,
                                       const std::vector<SettingGroup>& wanted,
                                       std::string_view by);

/// The same with the file, which need not be there; it keeps its owner and its permissions, and a
/// symbolic link goes on pointing to it. Nothing is written where nothing lacks.
Result<CompletedConfig> CompleteConfigFile(const std::string& path,
                                           const std::vector<SettingGroup>& wanted,
                                           std::string_view by);

/// What the file says for a key whose value is a text; "" where that is not set, or nobody can
/// tell.
std::string TextInConfigFile(const std::string& path, std::string_view section,
                             std::string_view key);

/// For people: `[node] listen = "0.0.0.0:7441", [mount] …`.
std::string ShowSettings(const std::vector<Setting>& settings);

/// What of a configuration was added and what was not, in one line; "" when neither.
std::string DescribeCompleted(const CompletedConfig& config);

}  // namespace forebay
