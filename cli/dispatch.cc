#include "cli/dispatch.h"

#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "cli/command_line.h"
#include "cli/errors.h"
#include "cli/help.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

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

}  // namespace

Exit Dispatch(const std::vector<std::string>& words, Surroundings surroundings) {
  Console& console = surroundings.console;
  std::expected<CommandLine, Failure> line =
      ReadCommandLine(words, surroundings.coordinators, console.format);
  Outcome outcome = line ? RunVerb(std::move(*line), surroundings)
                         : Outcome(std::unexpected(std::move(line.error())));
  if (outcome) return *outcome;
  PrintFailure(console, outcome.error());
  return outcome.error().ExitCode();
}

}  // namespace forebay
