#include "cli/health.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/model/membership.h"

namespace forebay {
namespace {

/// The names of coordinator/alerts.cc. One that is not here is a newer coordinator's and comes
/// behind those that lose data or nodes.
constexpr std::array<std::string_view, 8> kGrave = {
    "no_nodes", "fills_paused", "disk_quarantined",    "disk_missing",
    "node_out", "node_suspect", "frozen_listing_lost", "listing_lost"};
constexpr std::array<std::string_view, 9> kLight = {
    "clock_wrong", "node_slow",    "node_out_of_memory", "disk_readonly",   "s3_throttled",
    "link_failed", "drain_failed", "node_fenced",        "blocks_set_aside"};

std::size_t Rank(const proto::Alert& alert) {
  const auto grave = std::ranges::find(kGrave, alert.name());
  if (grave != kGrave.end()) return static_cast<std::size_t>(grave - kGrave.begin());
  const auto light = std::ranges::find(kLight, alert.name());
  return kGrave.size() +
         (light == kLight.end() ? 0 : 1 + static_cast<std::size_t>(light - kLight.begin()));
}

}  // namespace

std::vector<proto::Alert> AlertsByWeight(const proto::StatsReply& stats) {
  std::vector<proto::Alert> alerts(stats.alerts().begin(), stats.alerts().end());
  const bool any_up = std::ranges::any_of(stats.nodes(), [](const proto::NodeStats& node) {
    return node.info().state() == static_cast<std::uint32_t>(NodeState::kUp);
  });
  if (!any_up) {
    proto::Alert alert;
    alert.set_name("no_nodes");
    alert.set_message("no cache node is up: nothing can be read through a mount");
    alert.set_action("start forebay-node with --coordinator HOST:PORT");
    alerts.push_back(std::move(alert));
  }
  std::ranges::sort(alerts, {}, [](const proto::Alert& alert) {
    return std::tuple(Rank(alert), alert.since_unix_s(), alert.message());
  });
  return alerts;
}

}  // namespace forebay
