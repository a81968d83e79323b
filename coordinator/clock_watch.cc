#include "coordinator/clock_watch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "common/trust/certificate.h"

namespace forebay {

std::optional<std::string> ClockWatch::Note(const std::string& node, std::int64_t sent_unix_ms,
                                            std::int64_t own_unix_ms, TimePoint now) {
  std::erase_if(clocks_, [now](const auto& row) { return now - row.second.heard > kHeldFor; });
  if (sent_unix_ms <= 0) {
    clocks_.erase(node);
    return std::nullopt;
  }
  Clocks& clocks = clocks_[node];
  clocks.heard = now;
  clocks.ahead = std::chrono::milliseconds(sent_unix_ms - own_unix_ms);
  const std::chrono::milliseconds off(std::abs(clocks.ahead.count()));
  if (off < (clocks.off_since ? kRightBelow : kWrongFrom)) {
    clocks.off_since.reset();
    if (!std::exchange(clocks.told, false)) return std::nullopt;
    return fmt::format("the clock of node {} is right again", node);
  }
  if (!clocks.off_since) clocks.off_since = now;
  if (clocks.told || now - *clocks.off_since < kBelievedAfter) return std::nullopt;
  clocks.told = true;
  return fmt::format("the clock of node {} says {}, and the coordinator's {}: set the wrong one",
                     node, DescribeTime(sent_unix_ms / 1000), DescribeTime(own_unix_ms / 1000));
}

std::optional<ClockWatch::View> ClockWatch::Of(const std::string& node, TimePoint now) const {
  const auto clocks = clocks_.find(node);
  if (clocks == clocks_.end() || now - clocks->second.heard > kHeldFor) return std::nullopt;
  View view{.ahead = clocks->second.ahead, .wrong_for = std::nullopt};
  if (clocks->second.told) view.wrong_for = now - *clocks->second.off_since;
  return view;
}

std::string DescribeAhead(std::chrono::milliseconds ahead) {
  const char* const way = ahead.count() < 0 ? "behind" : "ahead of";
  const auto minutes = std::chrono::round<std::chrono::minutes>(std::chrono::abs(ahead)).count();
  if (minutes < 2 * 60) return fmt::format("{} min {}", minutes, way);
  if (minutes < 2 * 24 * 60) return fmt::format("{} h {}", minutes / 60, way);
  return fmt::format("{} days {}", minutes / (24 * 60), way);
}

}  // namespace forebay
