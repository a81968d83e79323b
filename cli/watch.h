#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/outcome.h"
#include "cli/verb.h"
#include "common/base/deadline.h"

namespace forebay {

/// `--watch 2s` of VerbKind::kList. The program declares and runs it; verbs do not know of it.
class Watch {
 public:
  void Declare(Options& options);

  /// Runs `once`, with --watch again and again until Ctrl-C (exit 130), --timeout (its last exit
  /// code) or a failure. A terminal is drawn over from its upper left corner, with what fits into
  /// it under a line that says what is watched, and a coordinator that is away is asked again;
  /// elsewhere the results follow one another.
  Outcome Run(VerbContext& context, const std::string& verb,
              const std::function<Outcome(VerbContext&)>& once) const;

 private:
  Outcome Redraw(VerbContext& context, const std::string& verb,
                 const std::function<Outcome(VerbContext&)>& once) const;

  std::optional<Duration> period_;
};

}  // namespace forebay
