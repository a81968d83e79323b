#include "cli/progress.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <chrono>
#include <cmath>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kLineEvery{10};
constexpr std::chrono::seconds kJsonEvery{1};
constexpr int kBarCells = 30;

std::optional<std::chrono::milliseconds> TimeLeft(const ProgressState& state, double per_second) {
  if (state.total <= state.done || per_second <= 0) return std::nullopt;
  const double seconds = static_cast<double>(state.total - state.done) / per_second;
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

std::string Figures(const ProgressState& state, double per_second) {
  std::string text = HumanCount(state.done);
  if (state.total > 0) text += " of " + HumanCount(state.total);
  text += " objects, " + HumanBytes(state.bytes);
  text += fmt::format(", {}/s", HumanCount(static_cast<std::uint64_t>(std::llround(per_second))));
  if (state.failed > 0) text += fmt::format(", {} failed", HumanCount(state.failed));
  const auto left = TimeLeft(state, per_second);
  if (left) text += ", " + HumanDuration(*left) + " left";
  return text;
}

std::string Bar(const ProgressState& state) {
  if (state.total == 0) return "";
  const double ratio = Ratio(state.done, state.total);
  const int full = static_cast<int>(ratio * kBarCells);
  return fmt::format("[{}{}] {:3.0f} %  ", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(kBarCells - full), '.'), ratio * 100);
}

}  // namespace

Progress::Progress(Console& console, std::string what, TimePoint begin)
    : console_(console), what_(Escaped(what)), begin_(begin), last_(begin) {}

void Progress::Show(const ProgressState& state, TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double per_second = seconds > 0 ? static_cast<double>(state.done) / seconds : 0;
  if (console_.json()) {
    if (now - last_ < kJsonEvery) return;
    last_ = now;
    ShowJson(state, per_second);
  } else if (console_.err_is_terminal) {
    ShowBar(state, per_second);
  } else if (now - last_ >= kLineEvery) {
    last_ = now;
    ShowLine(state, per_second);
  }
}

void Progress::ShowBar(const ProgressState& state, double per_second) {
  // Back to the left edge, the text, and away with what is left of a longer one.
  console_.err << '\r' << what_ << ": " << Bar(state) << Figures(state, per_second) << "\x1b[K"
               << std::flush;
  bar_shown_ = true;
}

void Progress::ShowLine(const ProgressState& state, double per_second) {
  console_.err << what_ << ": " << Figures(state, per_second) << '\n' << std::flush;
}

void Progress::ShowJson(const ProgressState& state, double per_second) {
  boost::json::object progress;
  progress["task"] = state.task;
  progress["done"] = state.done;
  progress["total"] = state.total == 0 ? boost::json::value() : boost::json::value(state.total);
  progress["failed"] = state.failed;
  progress["bytes"] = state.bytes;
  progress["per_second"] = per_second;
  const auto left = TimeLeft(state, per_second);
  progress["eta_seconds"] = left ? boost::json::value(std::chrono::duration<double>(*left).count())
                                 : boost::json::value();
  boost::json::object line;
  line["progress"] = std::move(progress);
  console_.err << JsonText(line) << '\n' << std::flush;
}

void Progress::Clear() {
  if (!std::exchange(bar_shown_, false)) return;
  console_.err << "\r\x1b[K" << std::flush;
}

}  // namespace forebay
