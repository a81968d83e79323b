#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "cli/outcome.h"
#include "cli/session.h"
#include "cli/target.h"

namespace forebay {

/// What a verb works with.
struct VerbContext {
  Session& session;
  Console& console;
  LocalView local;
  bool detach = false;  ///< VerbKind::kTask: --detach was given; WaitForTask obeys it.
};

/// One word after `forebay`. Made for one command line: declares its options, is filled by them,
/// runs once; one of VerbKind::kList runs again and again with --watch.
class Verb {
 public:
  Verb() = default;
  virtual ~Verb() = default;
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  virtual void Declare(Options& options) = 0;
  virtual Outcome Run(VerbContext& context) = 0;
};

/// What a verb gets from the program beside its own options.
enum class VerbKind : std::uint8_t {
  kPlain,
  kList,  ///< Shows a state: has --watch.
  kTask,  ///< Starts or follows a task: has --wait and --detach, and ends with WaitForTask.
};

/// A verb as the parser, --help, the completion and the manual know it.
struct VerbRow {
  std::string name;
  std::string summary;  ///< One line of `forebay --help`.
  std::unique_ptr<Verb> (*make)();
  VerbKind kind = VerbKind::kPlain;
  std::vector<std::string> aliases = {};  ///< Other names for it, as other tools have them.
};

}  // namespace forebay
