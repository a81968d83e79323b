#include "cli/watch.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>
#include <sstream>

#include "cli/table.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// More often than this would only load the coordinator.
constexpr std::chrono::milliseconds kShortestPeriod{100};

constexpr const char* kHome = "\x1b[H";
constexpr const char* kEndOfLine = "\x1b[K";
constexpr const char* kEndOfScreen = "\x1b[J";

/// `text` over what the screen shows, as many lines as fit. Drawing over and not clearing first
/// keeps it from flickering.
void DrawScreen(const Console& console, const std::string& heading, const std::string& text) {
  const TerminalSize size = console.size();
  // The last line stays free: a line end there would scroll.
  std::size_t room = size.rows > 3 ? size.rows - 2 : 1;
  std::string screen = kHome + Coloured(console, FirstColumns(heading, size.columns), Tone::kFaint);
  screen += std::string(kEndOfLine) + "\n";
  std::istringstream lines(text);
  std::string line;
  while (room > 0 && std::getline(lines, line)) {
    const std::size_t height = 1 + (VisibleWidth(line) - (line.empty() ? 0 : 1)) / size.columns;
    if (height > room) break;
    room -= height;
    screen += line + kEndOfLine + "\n";
  }
  console.out << screen << kEndOfScreen << std::flush;
}

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

Outcome Watch::Redraw(VerbContext& context, const std::string& verb,
                      const std::function<Outcome(VerbContext&)>& once) const {
  std::ostringstream page;
  Console buffered{.out = page, .err = context.console.err, .in = context.console.in};
  buffered.format = context.console.format;
  buffered.colour = context.console.colour;
  buffered.size = context.console.size;
  VerbContext inner{.session = context.session, .console = buffered, .local = context.local};
  Outcome outcome = once(inner);
  std::string text = page.str();
  if (!outcome) {
    // Only a coordinator that is away may come back by itself.
    if (outcome.error().error.code != Code::kUnavailable) return outcome;
    text = Escaped(outcome.error().error.message) + "\n";
    outcome = Exit::kFailed;
  }
  const auto period = std::chrono::duration_cast<std::chrono::milliseconds>(*period_);
  DrawScreen(context.console,
             fmt::format("forebay {}, every {}; Ctrl-C ends it", verb, FormatDuration(period)),
             text);
  return outcome;
}

Outcome Watch::Run(VerbContext& context, const std::string& verb,
                   const std::function<Outcome(VerbContext&)>& once) const {
  if (!period_) return once(context);
  context.session.CatchInterrupts();
  const bool redraw = context.console.CanRedrawOut() && !context.console.json();
  if (redraw) context.console.out << kHome << kEndOfScreen;
  for (;;) {
    Outcome outcome = redraw ? Redraw(context, verb, once) : once(context);
    if (context.session.interrupted()) return Exit::kInterrupted;
    if (!outcome || context.session.TimedOut()) return outcome;
    if (!context.session.Pause(*period_)) return Exit::kInterrupted;
    if (context.session.TimedOut()) return outcome;
  }
}

}  // namespace forebay
