#include "cli/progress.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kLineEvery{10};
constexpr std::chrono::seconds kJsonEvery{1};
/// A line in a log need not be cut.
constexpr std::size_t kNoLimit = 1000;

}  // namespace

Progress::Progress(const Console& console, ProgressTitle title, TimePoint begin)
    : console_(console),
      title_({.what = Escaped(title.what), .moves_bytes = title.moves_bytes}),
      last_(begin) {}

void Progress::Show(const ProgressState& state, TimePoint now) {
  rate_.Add(now, state.done, state.bytes);
  if (console_.json()) {
    if (now - last_ < kJsonEvery) return;
    last_ = now;
    ShowJson(state);
  } else if (console_.CanRedrawErr()) {
    ShowBar(state);
  } else if (now - last_ >= kLineEvery) {
    last_ = now;
    ProgressFigures figures(title_, state, rate_.Current());
    console_.err << figures.Line(kNoLimit, false) << '\n' << std::flush;
  }
}

void Progress::ShowBar(const ProgressState& state) {
  // The last column stays free: some terminals wrap as soon as it is written. Back to the left
  // edge, the text, and away with what is left of a longer one, also where a window that was made
  // narrower has wrapped it.
  const std::size_t columns = console_.size().columns;
  const ProgressFigures figures(title_, state, rate_.Current());
  console_.err << '\r' << figures.Line(columns - std::min<std::size_t>(columns, 1), true)
               << "\x1b[J" << std::flush;
  bar_shown_ = true;
}

void Progress::ShowJson(const ProgressState& state) {
  const std::optional<RateWindow::Speed> speed = rate_.Current();
  const std::optional<double> left = SecondsLeft(state, speed);
  boost::json::object progress;
  progress["task"] = state.task;
  progress["done"] = state.done;
  progress["total"] = state.total == 0 ? boost::json::value() : boost::json::value(state.total);
  progress["failed"] = state.failed;
  progress["bytes"] = state.bytes;
  progress["per_second"] = speed ? boost::json::value(speed->objects_per_second) : nullptr;
  progress["bytes_per_second"] = speed ? boost::json::value(speed->bytes_per_second) : nullptr;
  progress["eta_seconds"] = left ? boost::json::value(*left) : boost::json::value();
  progress["waiting"] =
      state.waiting.empty() ? boost::json::value() : boost::json::value(state.waiting);
  boost::json::object line;
  line["progress"] = std::move(progress);
  console_.err << JsonText(line) << '\n' << std::flush;
}

void Progress::Clear() {
  if (!std::exchange(bar_shown_, false)) return;
  console_.err << "\r\x1b[J" << std::flush;
}

}  // namespace forebay
