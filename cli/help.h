#pragma once

#include <string>

#include "cli/verb.h"

namespace forebay {

/// The text of `forebay --help`.
std::string ProgramHelp();
/// The text of `forebay VERB --help`.
std::string VerbHelp(const VerbRow& row);

/// What scripts rely on, in words.
struct ExitText {
  int code;
  const char* meaning;
};
inline constexpr ExitText kExitTexts[] = {
    {0, "done; check: all of it is cached; status: healthy"},
    {1, "it was tried and failed"},
    {2, "the command or the configuration is wrong; nothing was done"},
    {3, "partly; check: not all of it, or nothing, is cached; status: degraded"},
    {4, "not done within --timeout"},
    {130, "Ctrl-C: what was begun goes on as a task"},
};

inline constexpr const char* kTargetText =
    "A TARGET is NAME, NAME/sub/path, s3://bucket/prefix or a path inside a mount.";

/// "forebay evict TARGET [OPTIONS]".
std::string Synopsis(const VerbRow& row, const Options& options);

}  // namespace forebay
