#include "cli/dispatch.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>
#include <utility>

#include "cli/command_line.h"
#include "cli/common_options.h"
#include "cli/completion.h"
#include "cli/errors.h"
#include "cli/help.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

/// Whoever presses TAB does not wait longer.
constexpr std::chrono::seconds kCompleteWithin{1};

Outcome RunVerb(CommandLine line, Surroundings& surroundings) {
  Console& console = surroundings.console;
  if (line.help) {
    console.out << (line.row == nullptr ? ProgramHelp() : VerbHelp(*line.row)) << std::flush;
    return Exit::kDone;
  }
  std::unique_ptr<Verb> verb = line.version ? MakeVersion() : std::move(line.verb);
  const std::unique_ptr<Session> session =
      surroundings.connect({.coordinators = std::move(line.coordinators), .timeout = line.timeout});
  VerbContext context{
      .session = *session, .console = console, .local = surroundings.local, .detach = line.detach};
  return line.watch.Run(context, line.row == nullptr ? "" : line.row->name,
                        [&](VerbContext& each) { return verb->Run(each); });
}

/// Those that a command line names which is still being written.
std::vector<std::string> CoordinatorsIn(const std::vector<std::string>& words,
                                        const std::string& environment) {
  constexpr std::string_view kFlag = "--coordinator";
  std::string text = environment.empty() ? kDefaultCoordinator : environment;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(std::string(kFlag) + "=")) text = words[i].substr(kFlag.size() + 1);
    if (words[i] == kFlag && i + 1 < words.size()) text = words[i + 1];
  }
  std::vector<std::string> addresses;
  if (!TakeCoordinators(text, addresses)) addresses = {kDefaultCoordinator};
  return addresses;
}

/// For the scripts of `forebay completion`: quick, and silent about what does not work.
Exit CompleteFor(std::vector<std::string> words, Surroundings& surroundings) {
  words.erase(words.begin());
  const std::unique_ptr<Session> session =
      surroundings.connect({.coordinators = CoordinatorsIn(words, surroundings.coordinators),
                            .timeout = kCompleteWithin});
  surroundings.console.out << CompletionLines(Complete(words, *session)) << std::flush;
  return Exit::kDone;
}

}  // namespace

Exit Dispatch(const std::vector<std::string>& words, Surroundings surroundings) {
  Console& console = surroundings.console;
  if (!words.empty() && words.front() == kCompleteWord) return CompleteFor(words, surroundings);
  std::expected<CommandLine, Failure> line =
      ReadCommandLine(words, surroundings.coordinators, console.format);
  Outcome outcome = line ? RunVerb(std::move(*line), surroundings)
                         : Outcome(std::unexpected(std::move(line.error())));
  if (outcome) return *outcome;
  PrintFailure(console, outcome.error());
  return outcome.error().ExitCode();
}

}  // namespace forebay
