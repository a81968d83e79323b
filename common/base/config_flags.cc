#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <deque>

#include "common/base/config_sources.h"
#include "common/base/nearest.h"

namespace forebay {

namespace {

struct CommonFlag {
  const char* name;
  ConfigAction action;
};

constexpr CommonFlag kActions[] = {
    {"--help", ConfigAction::kHelp},
    {"--version", ConfigAction::kVersion},
    {"--print-config", ConfigAction::kPrintConfig},
    {"--check-config", ConfigAction::kCheckConfig},
};

/// What CLI11 collected for one option of a table.
struct Collected {
  ConfigOption* option;
  std::vector<std::string> texts;
};

/// Tells CLI11 of one option. Its own conversions are not used: all sources are read by one code.
void Declare(CLI::App& app, Collected& collected) {
  const ConfigOption& option = *collected.option;
  // CLI11 wants plain words for arguments without a flag: the key is one.
  std::string names = option.positional ? option.key : option.flag;
  if (!option.short_flag.empty()) names = option.short_flag + "," + names;
  const CLI::callback_t collect = [&collected](const std::vector<std::string>& texts) {
    collected.texts = texts;
    return true;
  };
  if (option.value.is_switch) {
    app.add_flag(names)->each([&collected](const std::string& text) { collected.texts = {text}; });
    return;
  }
  CLI::Option* declared = app.add_option(names, collect);
  if (option.value.is_list) {
    // As often as one likes, one text each time: a second word is the next argument.
    declared->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else {
    declared->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

void ReportExtras(const CLI::App& app, const std::vector<std::string>& known,
                  std::vector<std::string>& faults) {
  const std::vector<std::string> extras = app.remaining();
  bool unknown_flag = false;
  for (const std::string& extra : extras) {
    if (!extra.starts_with("-")) continue;
    unknown_flag = true;
    const std::string name = extra.substr(0, extra.find('='));
    faults.push_back(fmt::format("flag {}: no such flag; {}", name, Suggest(name, known)));
  }
  // Behind an unknown flag a word is probably its value.
  if (unknown_flag) return;
  for (const std::string& extra : extras) {
    faults.push_back(fmt::format("argument \"{}\": not expected here; see --help", extra));
  }
}

std::vector<std::string> KnownFlags(const std::deque<Collected>& all) {
  std::vector<std::string> known{"--config"};
  for (const CommonFlag& flag : kActions) known.emplace_back(flag.name);
  for (const Collected& collected : all) {
    if (!collected.option->positional) known.push_back(collected.option->flag);
  }
  return known;
}

std::string Origin(const ConfigOption& option) {
  return (option.positional ? "argument " : "flag ") + option.flag;
}

}  // namespace

ParsedFlags ReadFlags(const std::vector<std::string>& arguments, std::vector<ConfigSection>& own,
                      std::vector<std::string>& faults) {
  ParsedFlags parsed;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::string config_file;
  app.add_option("--config",
                 [&config_file](const std::vector<std::string>& texts) {
                   config_file = texts.front();
                   return true;
                 })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::vector<CLI::Option*> actions;
  for (const CommonFlag& flag : kActions) {
    actions.push_back(app.add_flag(flag.action == ConfigAction::kHelp ? "-h,--help" : flag.name));
  }
  std::deque<Collected> all;
  for (ConfigSection& section : own) {
    for (ConfigOption& option : section.options)
      Declare(app, all.emplace_back(Collected{&option, {}}));
  }

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    parsed.readable = false;
    const std::string text = error.what();  // begins with the flag's name and a colon
    faults.push_back(fmt::format("flag {}: needs a value", text.substr(0, text.find(':'))));
  } catch (const CLI::ParseError& error) {
    parsed.readable = false;
    faults.push_back(fmt::format("command line: {}; see --help", error.what()));
  }
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i]->count() > 0 && parsed.action == ConfigAction::kRun) {
      parsed.action = kActions[i].action;
    }
  }
  if (!config_file.empty()) parsed.config_file = config_file;
  ReportExtras(app, KnownFlags(all), faults);
  for (Collected& collected : all) {
    if (collected.texts.empty()) continue;
    std::vector<std::string> texts;
    for (const std::string& text : collected.texts) {
      std::vector<std::string> parts =
          collected.option->value.is_list ? SplitList(text) : std::vector<std::string>{text};
      texts.insert(texts.end(), parts.begin(), parts.end());
    }
    parsed.entries.push_back({collected.option, std::move(texts), Origin(*collected.option)});
  }
  return parsed;
}

}  // namespace forebay
