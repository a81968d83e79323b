#pragma once

#include <memory>
#include <string>

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
};

/// One word after `forebay`. Made for one command line: declares its options, is filled by them,
/// runs once.
class Verb {
 public:
  Verb() = default;
  virtual ~Verb() = default;
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  virtual void Declare(Options& options) = 0;
  virtual Outcome Run(VerbContext& context) = 0;
};

/// A verb as --help and the parser know it.
struct VerbRow {
  std::string name;
  std::string summary;  ///< One line of `forebay --help`.
  std::unique_ptr<Verb> (*make)();
};

}  // namespace forebay
