#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <deque>
#include <utility>

#include "cli/common_options.h"
#include "cli/verb_table.h"
#include "common/base/nearest.h"

namespace forebay {

bool IsFlag(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

std::size_t FindVerbWord(const std::vector<std::string>& words, const Options& global) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!IsFlag(words[i])) return i;
    const bool takes_next = std::ranges::any_of(global.all(), [&](const Option& option) {
      return !option.value.empty() && (words[i] == option.name || words[i] == option.short_name);
    });
    if (takes_next) ++i;
  }
  return words.size();
}

namespace {

/// Of an argument that may be given several times: more than any verb takes.
constexpr int kMostArguments = 1000;

/// An option and the texts that were given for it.
struct Collected {
  const Option* option;
  std::vector<std::string> texts;
};

void Declare(CLI::App& app, Collected& collected) {
  const Option& option = *collected.option;
  const std::string names =
      option.short_name.empty() ? option.name : option.short_name + "," + option.name;
  if (!option.positional() && option.value.empty()) {
    app.add_flag(names)->each([&collected](const std::string&) { collected.texts = {""}; });
    return;
  }
  const CLI::callback_t collect = [&collected](const std::vector<std::string>& texts) {
    collected.texts = texts;
    return true;
  };
  const bool list = option.positional() && option.repeats;
  app.add_option(names, collect)
      ->expected(1, list ? kMostArguments : 1)
      ->allow_extra_args(list)
      ->multi_option_policy(option.repeats ? CLI::MultiOptionPolicy::TakeAll
                                           : CLI::MultiOptionPolicy::TakeLast);
}

Failure Unexpected(const std::string& word, const std::deque<Collected>& all,
                   const std::string& help) {
  if (!IsFlag(word)) {
    return Failure(Error{Code::kInvalid, fmt::format("\"{}\" is not expected here", word)},
                   "see " + help, Exit::kUsage);
  }
  std::vector<std::string> known;
  for (const Collected& collected : all) {
    if (!collected.option->positional()) known.push_back(collected.option->name);
  }
  const std::string name = word.substr(0, word.find('='));
  return Failure(Error{Code::kInvalid, fmt::format("there is no flag {}", name)},
                 Suggest(name, known), Exit::kUsage);
}

/// Gives every option its text; the first thing that is wrong ends it.
std::expected<void, Failure> Parse(std::vector<std::string> words, const Options& global,
                                   const Options& own, const std::string& help) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::deque<Collected> all;
  for (const Options* options : {&own, &global}) {
    for (const Option& option : options->all()) Declare(app, all.emplace_back(&option));
  }
  std::ranges::reverse(words);
  std::optional<Failure> failure;
  try {
    app.parse(std::move(words));
    std::vector<std::string> extras = app.remaining();
    std::erase(extras, "--");  // behind it nothing is a flag
    const auto flag = std::ranges::find_if(extras, IsFlag);
    // A word behind an unknown flag is probably its value.
    if (!extras.empty()) {
      failure = Unexpected(flag == extras.end() ? extras.front() : *flag, all, help);
    }
  } catch (const CLI::ParseError& error) {
    failure = Failure(Error{Code::kInvalid, error.what()}, "see " + help, Exit::kUsage);
  }
  for (const Collected& collected : all) {
    const Option& option = *collected.option;
    for (const std::string& text : collected.texts) {
      // A variable of a script that is not set, which must not mean the default.
      const bool is_empty = text.empty() && !option.positional() && !option.value.empty();
      Status taken = is_empty ? Fail(Code::kInvalid, "needs a value") : option.take(text);
      if (taken || failure) continue;
      failure = Failure(taken.error().Within(option.name), "", Exit::kUsage);
    }
  }
  if (failure) return std::unexpected(std::move(*failure));
  return {};
}

std::expected<void, Failure> CheckRequired(const Options& own, const std::vector<bool>& given,
                                           const std::string& help) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!own.all()[i].required || given[i]) continue;
    return UsageError(fmt::format("{} is missing", own.all()[i].name), "see " + help);
  }
  return {};
}

}  // namespace

std::expected<CommandLine, Failure> ReadCommandLine(const std::vector<std::string>& words,
                                                    const std::string& coordinators,
                                                    OutputFormat& output) {
  CommandLine line;
  Status taken = TakeCoordinators(coordinators.empty() ? kDefaultCoordinator : coordinators,
                                  line.coordinators);
  if (!taken) return std::unexpected(Failure(taken.error().Within("FOREBAY_COORDINATOR")));
  const Options global = GlobalOptions(line, output);
  const std::size_t place = FindVerbWord(words, global);
  std::vector<std::string> rest = words;
  if (place < words.size() && words[place] == "help") {
    // As git and others have it: `forebay help VERB` is `forebay VERB --help`.
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(place));
    rest.emplace_back("--help");
    return ReadCommandLine(rest, coordinators, output);
  }
  if (place < words.size()) {
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(place));
    line.row = FindVerb(words[place]);
  }
  if (place < words.size() && line.row == nullptr) {
    // Only for -o, which says how the failure is printed.
    [[maybe_unused]] const std::expected<void, Failure> ignored =
        Parse(std::move(rest), global, Options(), "");
    return UsageError(fmt::format("there is no verb \"{}\"", words[place]),
                      Suggest(words[place], VerbNames()));
  }
  Options own;
  if (line.row != nullptr) {
    line.verb = line.row->make();
    own = VerbOptions(*line.row, *line.verb, line);
  }
  const std::string help =
      line.row == nullptr ? "`forebay --help`" : fmt::format("`forebay {} --help`", line.row->name);
  std::vector<bool> given(own.all().size(), false);
  Options watched;
  for (std::size_t i = 0; i < own.all().size(); ++i) {
    Option option = own.all()[i];
    option.take = [&given, i, take = option.take](const std::string& text) {
      given[i] = true;
      return take(text);
    };
    watched.Add(std::move(option));
  }
  std::expected<void, Failure> parsed = Parse(std::move(rest), global, watched, help);
  if (!parsed) return std::unexpected(parsed.error());
  if (line.help || line.version) return line;
  if (line.row == nullptr) {
    return UsageError("a verb is missing", "`forebay --help` shows them all");
  }
  std::expected<void, Failure> complete = CheckRequired(own, given, help);
  if (!complete) return std::unexpected(complete.error());
  if (line.wait && line.detach) return UsageError("--wait and --detach exclude each other");
  return line;
}

}  // namespace forebay
