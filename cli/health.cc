#include "cli/health.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "common/model/alert.h"
#include "common/model/membership.h"

namespace forebay {
std::vector<proto::Alert> AlertsByWeight(const proto::StatsReply& stats) {
  std::vector<proto::Alert> alerts(stats.alerts().begin(), stats.alerts().end());
  const bool any_up = std::ranges::any_of(stats.nodes(), [](const proto::NodeStats& node) {
    return node.info().state() == static_cast<std::uint32_t>(NodeState::kUp);
  });
  if (!any_up) {
    proto::Alert alert;
    alert.set_name(std::string(AlertName(AlertKind::kNoNodes)));
    alert.set_message("no cache node is up: nothing can be read through a mount");
    alert.set_action("start forebay-node with --coordinator HOST:PORT");
    alerts.push_back(std::move(alert));
  }
  std::ranges::sort(alerts, {}, [](const proto::Alert& alert) {
    return std::tuple(AlertRank(alert.name()), alert.since_unix_s(), alert.message());
  });
  return alerts;
}

}  // namespace forebay
