#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <chrono>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "cli/cluster_stats.h"
#include "cli/health.h"
#include "cli/json.h"
#include "cli/task_view.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// What the screen sums up over the nodes.
struct Members {
  std::array<std::uint64_t, 4> by_state{};  ///< Index: NodeState.
  DiskSpace space;
  std::set<std::string> zones;  ///< Of those that name one.
  std::uint64_t cross_zone_bytes = 0;
};

Members CountMembers(const proto::StatsReply& stats) {
  Members members;
  for (const proto::NodeStats& node : stats.nodes()) {
    const std::uint32_t state = node.info().state();
    if (state < members.by_state.size()) ++members.by_state[state];
    const DiskSpace space = SpaceOf(node);
    members.space.used_bytes += space.used_bytes;
    members.space.capacity_bytes += space.capacity_bytes;
    if (!node.info().zone().empty()) members.zones.insert(node.info().zone());
  }
  // Of links, not of nodes: one that has left the cluster does not take its part away.
  for (const proto::LinkStats& link : stats.links())
    members.cross_zone_bytes += link.total().cross_zone_bytes();
  return members;
}

class StatusVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Switch("--quiet", "print nothing, only set the exit code: 0 healthy, 3 degraded",
                   quiet_);
  }

  Outcome Run(VerbContext& context) override {
    auto stats = AskStats(context.session);
    if (!stats) return std::unexpected(stats.error());
    const std::vector<proto::Alert> alerts = AlertsByWeight(*stats);
    if (!quiet_ && context.console.json()) {
      PrintJson(context, *stats, alerts);
    } else if (!quiet_) {
      PrintScreen(context, *stats, alerts);
    }
    return alerts.empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  static void PrintJson(VerbContext& context, const proto::StatsReply& stats,
                        const std::vector<proto::Alert>& alerts) {
    const Members members = CountMembers(stats);
    boost::json::object document = NewDocument();
    document["state"] = alerts.empty() ? "healthy" : "degraded";
    document["time"] = Rfc3339Ms(stats.time_unix_ms());
    document["cluster"] = ClusterName(stats);
    boost::json::array alert_rows;
    for (const proto::Alert& alert : alerts) {
      boost::json::object row = AlertJson(alert);
      if (alert.since_unix_s() == 0) row["since"] = nullptr;
      alert_rows.emplace_back(std::move(row));
    }
    document["alerts"] = std::move(alert_rows);
    boost::json::object coordinator;
    coordinator["address"] = context.session.Address();
    coordinator["version"] = stats.coordinator_version();
    coordinator["started"] = Rfc3339(stats.started_unix_s());
    document["coordinator"] = std::move(coordinator);
    boost::json::object ring;
    ring["epoch"] = stats.ring_epoch();
    for (std::uint32_t i = 0; i < members.by_state.size(); ++i) {
      ring[NodeStateName(i)] = members.by_state[i];
    }
    document["ring"] = std::move(ring);
    document["used_bytes"] = members.space.used_bytes;
    document["capacity_bytes"] = members.space.capacity_bytes;
    document["cross_zone_bytes"] = members.cross_zone_bytes;
    document["s3_limit"] = FillLimitsJson(stats.fill_limits());
    boost::json::array links;
    for (const proto::LinkStats& link : stats.links()) {
      boost::json::object row;
      row["name"] = link.name();
      row["state"] = LinkStateName(link.state());
      row["objects"] = link.generation().objects();
      row["bytes"] = link.generation().bytes();
      row["cached_bytes"] = link.total().cached_bytes();
      links.emplace_back(std::move(row));
    }
    document["links"] = std::move(links);
    boost::json::array fills;
    for (const proto::TaskState& fill : stats.fills()) fills.emplace_back(TaskJson(fill));
    document["fills"] = std::move(fills);
    PrintDocument(context.console, document);
  }

  static void PrintAlerts(const Console& console, const std::vector<proto::Alert>& alerts,
                          std::int64_t now) {
    if (alerts.empty()) {
      console.out << Coloured(console, "healthy", Tone::kGood) << "\n\n";
      return;
    }
    const proto::Alert& first = alerts.front();
    console.out << Coloured(console, "degraded", Tone::kBad) << ": " << Escaped(first.message())
                << '\n';
    if (first.since_unix_s() != 0) {
      const std::chrono::seconds age(std::max<std::int64_t>(now - first.since_unix_s(), 0));
      console.out << fmt::format("  since    {} ({})\n", Rfc3339(first.since_unix_s()),
                                 HumanDuration(age));
    }
    console.out << "  do       " << Escaped(first.action()) << '\n';
    for (std::size_t i = 1; i < alerts.size(); ++i) {
      console.out << "  and      " << Escaped(alerts[i].message()) << '\n';
    }
    console.out << '\n';
  }

  static std::string MembersText(const Members& members) {
    std::string text;
    for (std::uint32_t i = 0; i < members.by_state.size(); ++i) {
      if (members.by_state[i] == 0 && i > 0) continue;
      if (!text.empty()) text += ", ";
      text += fmt::format("{} {}", HumanCount(members.by_state[i]), NodeStateName(i));
    }
    return text;
  }

  static void PrintScreen(VerbContext& context, const proto::StatsReply& stats,
                          const std::vector<proto::Alert>& alerts) {
    const Console& console = context.console;
    const std::int64_t now = stats.time_unix_ms() / 1000;
    const Members members = CountMembers(stats);
    PrintAlerts(console, alerts, now);
    const std::chrono::seconds up(std::max<std::int64_t>(now - stats.started_unix_s(), 0));
    console.out << fmt::format("coordinator  {}, version {}, up {}\n", context.session.Address(),
                               Escaped(stats.coordinator_version()), HumanDuration(up));
    console.out << fmt::format("ring         epoch {}, nodes: {}\n", stats.ring_epoch(),
                               MembersText(members));
    console.out << fmt::format("capacity     {} of {} used\n", HumanBytes(members.space.used_bytes),
                               HumanBytes(members.space.capacity_bytes));
    if (members.zones.size() > 1) {
      console.out << fmt::format("zones        {}, {} sent from one to another\n",
                                 members.zones.size(), HumanBytes(members.cross_zone_bytes));
    }
    const std::string limits = FillLimitsText(stats.fill_limits());
    if (!limits.empty()) console.out << "from S3      " << limits << '\n';
    if (console.wide()) console.out << "cluster      " << ClusterName(stats) << '\n';
    if (stats.links().empty()) {
      console.out << "links        none yet: `forebay link s3://bucket/prefix` makes one\n";
    }
    for (int i = 0; i < stats.links_size(); ++i) {
      const proto::LinkStats& link = stats.links(i);
      const std::string cached =
          link.has_generation()
              ? fmt::format("{}, {}, {} cached", Counted(link.generation().objects(), "object"),
                            HumanBytes(link.generation().bytes()), HumanPercent(CachedRatio(link)))
              : std::string(LinkStateName(link.state()));
      console.out << fmt::format("{}{}: {}\n", i == 0 ? "links        " : "             ",
                                 Escaped(link.name()), cached);
    }
    for (const proto::TaskState& fill : stats.fills())
      console.out << "filling      " << FillText(fill) << '\n';
    console.out << std::flush;
  }

  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeStatus() { return std::make_unique<StatusVerb>(); }

}  // namespace forebay
