#include "cli/progress_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

constexpr std::size_t kLongestBar = 30;
constexpr std::size_t kShortestBar = 10;
constexpr std::size_t kBrackets = 3;  // "[" and "] "

/// What a line may leave out, the first one first.
enum Part : std::size_t { kBarPart, kBytes, kCount, kRate, kTitle, kParts };

std::uint64_t Rounded(double value) { return static_cast<std::uint64_t>(std::llround(value)); }

std::string BarText(double ratio, std::size_t cells) {
  const auto full = static_cast<std::size_t>(ratio * static_cast<double>(cells));
  return fmt::format("[{}{}] ", std::string(full, '#'), std::string(cells - full, '.'));
}

void Append(std::string& line, const std::string& part) {
  if (part.empty()) return;
  if (!line.empty() && !line.ends_with(' ')) line += ", ";
  line += part;
}

}  // namespace

std::optional<double> SecondsLeft(const ProgressState& state,
                                  const std::optional<RateWindow::Speed>& speed) {
  const std::uint64_t over = state.done + state.failed;
  if (state.total == 0 || !speed || speed->objects_per_second <= 0) return std::nullopt;
  // More than there should be: the total is old.
  if (over > state.total) return std::nullopt;
  return static_cast<double>(state.total - over) / speed->objects_per_second;
}

ProgressFigures::ProgressFigures(const ProgressTitle& title, const ProgressState& state,
                                 const std::optional<RateWindow::Speed>& speed)
    : title_(title.what + ": ") {
  count_ = HumanCount(state.done);
  if (state.total > 0) {
    ratio_ = Ratio(state.done, state.total);
    // Rounded down: 100 % is said when it is all of it.
    percent_ = fmt::format("{:3.0f} %", std::floor(ratio_ * 100));
    count_ += " of " + HumanCount(state.total);
  }
  count_ += " objects";
  bytes_ = HumanBytes(state.bytes);
  if (speed) {
    rate_ = HumanCount(Rounded(speed->objects_per_second)) + "/s";
    if (title.moves_bytes) rate_ += ", " + HumanBytes(Rounded(speed->bytes_per_second)) + "/s";
  }
  if (state.failed > 0) failed_ = HumanCount(state.failed) + " failed";
  if (!state.waiting.empty()) waiting_ = "waits for S3: " + Escaped(state.waiting);
  const std::optional<double> left = SecondsLeft(state, speed);
  left_ = "ETA --";
  if (left) {
    left_ = "ETA " + HumanDuration(std::chrono::milliseconds(std::llround(*left * 1000)));
  }
}

std::string ProgressFigures::Line(std::size_t columns, bool with_bar) const {
  // Why it waits is what matters; it is long, and its end is cut off.
  if (!waiting_.empty()) return FirstColumns(title_ + count_ + ", " + waiting_, columns);
  with_bar = with_bar && !percent_.empty();
  for (std::size_t dropped = 0; dropped <= kParts; ++dropped) {
    const auto kept = [&](Part part) { return dropped <= part; };
    std::string line = kept(kTitle) ? title_ : "";
    const std::size_t bar_at = line.size();
    Append(line, percent_);
    if (with_bar && kept(kBarPart)) line += "  ";
    if (kept(kCount)) Append(line, count_);
    if (kept(kBytes)) Append(line, bytes_);
    if (kept(kRate)) Append(line, rate_);
    Append(line, failed_);
    Append(line, left_);
    const std::size_t width = DisplayWidth(line);
    if (width > columns) continue;
    const std::size_t room = columns - width;
    if (!with_bar || !kept(kBarPart)) return line;
    if (room < kShortestBar + kBrackets) continue;
    return line.insert(bar_at, BarText(ratio_, std::min(room - kBrackets, kLongestBar)));
  }
  return FirstColumns(percent_.empty() ? left_ : percent_, columns);
}

}  // namespace forebay
