#include "common/base/config_loader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "common/base/config_sources.h"

namespace forebay {

namespace {

void Apply(const std::vector<ConfigEntry>& entries, std::vector<std::string>& faults) {
  for (const ConfigEntry& entry : entries) {
    const Status status = entry.option->value.set(entry.texts);
    if (!status) {
      faults.push_back(
          fmt::format("{}: {}: {}", entry.origin, entry.option->key, status.error().message));
    }
    entry.option->origin = entry.origin;
  }
}

/// A required option is missing when no source has it, or a source has it empty. A bad value is
/// reported as such, not as missing.
void CheckRequired(const ConfigSection& section, bool values_are_good,
                   std::vector<std::string>& faults) {
  for (const ConfigOption& option : section.options) {
    const std::string shown = option.value.show();
    const bool empty = values_are_good && (shown == "[]" || shown == "\"\"");
    if (!option.required || (option.origin != "default" && !empty)) continue;
    faults.push_back(fmt::format(
        "{} is not set: give {}{}{}, the environment {}, or {} under [{}] in the file", option.key,
        option.flag, option.positional ? "" : " ", option.positional ? "" : option.value.metavar,
        option.environment, option.key, section.name));
  }
}

}  // namespace

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

ConfigOutcome LoadConfig(const ConfigSources& sources, std::vector<ConfigSection>& own,
                         std::vector<ConfigSection>& others) {
  ConfigOutcome outcome;
  std::vector<std::string>& faults = outcome.faults;
  const ParsedFlags flags = ReadFlags(sources.arguments, own, faults);
  outcome.action = flags.action;
  if (outcome.action == ConfigAction::kHelp || outcome.action == ConfigAction::kVersion) {
    return outcome;
  }

  std::vector<ConfigSection*> sections;
  sections.reserve(own.size() + others.size());
  for (ConfigSection& section : own) sections.push_back(&section);
  for (ConfigSection& section : others) sections.push_back(&section);
  const std::string file = flags.config_file.value_or(sources.default_file);
  // Lowest first: what comes later wins.
  Apply(ReadConfigFile(file, flags.config_file.has_value(), sections, faults), faults);
  Apply(ReadEnvironment(sources.environment, own, others, faults), faults);
  Apply(flags.entries, faults);

  const bool values_are_good = faults.empty();
  for (const ConfigSection& section : own) {
    if (flags.readable) CheckRequired(section, values_are_good, faults);
    // What is wrong between members says nothing as long as the members themselves are wrong.
    if (!section.finish || !values_are_good) continue;
    for (std::string& fault : section.finish(sources.environment)) {
      faults.push_back(std::move(fault));
    }
  }
  return outcome;
}

std::vector<ConfigChange> ChangesBetween(const std::vector<ConfigSection>& before,
                                         const std::vector<ConfigSection>& now) {
  std::vector<ConfigChange> changes;
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    const auto& options = now[i].options;
    for (std::size_t k = 0; k < std::min(before[i].options.size(), options.size()); ++k) {
      std::string was = before[i].options[k].value.show();
      std::string is = options[k].value.show();
      if (was != is)
        changes.push_back({now[i].name, options[k].key, std::move(was), std::move(is)});
    }
  }
  return changes;
}

}  // namespace forebay
