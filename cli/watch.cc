#include "cli/watch.h"

#include <chrono>
#include <ostream>

#include "common/base/units.h"

namespace forebay {
namespace {

/// More often than this would only load the coordinator.
constexpr std::chrono::milliseconds kShortestPeriod{100};

}  // namespace

void Watch::Declare(Options& options) {
  options.Flag("--watch", "TIME", "print it again and again after this time: 2s",
               [this](const std::string& text) -> Status {
                 Result<std::chrono::milliseconds> period = ParseDuration(text);
                 if (!period) return Fail(period.error());
                 if (*period < kShortestPeriod) {
                   return Fail(Code::kInvalid, "the shortest time is 100ms");
                 }
                 period_ = *period;
                 return {};
               });
}

Outcome Watch::Run(VerbContext& context, const std::function<Outcome()>& once) const {
  if (!period_) return once();
  context.session.CatchInterrupts();
  const bool clear = context.console.out_is_terminal && !context.console.json();
  for (;;) {
    if (clear) context.console.out << "\x1b[H\x1b[2J";
    Outcome outcome = once();
    if (!outcome && context.session.interrupted()) return Exit::kInterrupted;
    if (!outcome || context.session.TimedOut()) return outcome;
    if (!context.session.Pause(*period_)) return Exit::kInterrupted;
    if (context.session.TimedOut()) return outcome;
  }
}

}  // namespace forebay
