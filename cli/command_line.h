#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/outcome.h"
#include "cli/verb.h"
#include "cli/watch.h"
#include "common/base/deadline.h"

namespace forebay {

/// What the command line asks for.
struct CommandLine {
  const VerbRow* row = nullptr;  ///< Null: --help or --version of the program itself.
  std::unique_ptr<Verb> verb;    ///< With its options filled in.
  bool help = false;
  bool version = false;
  std::optional<Duration> timeout;
  std::vector<std::string> coordinators;
  Watch watch;        ///< VerbKind::kList.
  bool wait = false;  ///< VerbKind::kTask, as `detach`; not both.
  bool detach = false;
};

/// Reads the words after the program's name; global options may stand before and after the verb.
/// `coordinators` is FOREBAY_COORDINATOR or "". An unknown verb or flag is exit 2 and names the
/// nearest one. `output` is set as soon as it is known, so that also a later error is printed so.
std::expected<CommandLine, Failure> ReadCommandLine(const std::vector<std::string>& words,
                                                    const std::string& coordinators,
                                                    OutputFormat& output);

bool IsFlag(const std::string& word);

/// The place of the verb: the first word that is neither a flag nor a global flag's value;
/// words.size() when there is none.
std::size_t FindVerbWord(const std::vector<std::string>& words, const Options& global);

}  // namespace forebay
