#pragma once

#include <functional>
#include <optional>

#include "cli/options.h"
#include "cli/outcome.h"
#include "cli/verb.h"
#include "common/base/deadline.h"

namespace forebay {

/// `--watch 2s` of verbs that list.
class Watch {
 public:
  void Declare(Options& options);

  /// Runs `once`, with --watch again and again until Ctrl-C (exit 130), --timeout or a failure. A
  /// terminal is cleared in between; elsewhere the results follow one another.
  Outcome Run(VerbContext& context, const std::function<Outcome()>& once) const;

 private:
  std::optional<Duration> period_;
};

}  // namespace forebay
