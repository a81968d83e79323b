#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <ostream>
#include <utility>

#include "cli/cluster_stats.h"
#include "cli/job_table.h"
#include "cli/json.h"
#include "cli/node_table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// How many objects of a link are cached is counted by looking at each of its blocks; beyond this
/// size that takes too long for counters that are asked for every few seconds.
constexpr std::uint64_t kCountedObjects = 1'000'000;
constexpr std::chrono::hours kLongestWindow{24 * 365};

class StatsVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Switch("--links", "only links", links_);
    options.Switch("--nodes", "only nodes", nodes_);
    options.Switch("--jobs", "only jobs", jobs_);
    options.Flag("--since", "TIME", "the window, back from now (default 1m): 5m",
                 [this](const std::string& text) { return TakeSince(text); });
  }

  Outcome Run(VerbContext& context) override {
    if (!links_ && !nodes_ && !jobs_) links_ = nodes_ = jobs_ = true;
    auto stats = AskStats(context.session, window_seconds_);
    if (!stats) return std::unexpected(stats.error());
    if (context.console.json()) {
      PrintJson(context, *stats);
    } else {
      PrintTables(context.console, *stats);
    }
    return Exit::kDone;
  }

 private:
  Status TakeSince(const std::string& text) {
    const Result<std::chrono::milliseconds> since = ParseDuration(text);
    if (!since) return Fail(since.error());
    if (*since < std::chrono::seconds(1) || *since > kLongestWindow) {
      return Fail(Code::kInvalid, fmt::format("\"{}\" is not from 1s to 365d", text));
    }
    window_seconds_ = static_cast<std::uint32_t>(since->count() / 1000);
    return {};
  }

  /// Null: the link is still being listed, too large, or a node did not say what it holds.
  static std::optional<std::uint64_t> CachedObjects(Session& session,
                                                    const proto::LinkStats& link) {
    if (!link.has_generation() || link.generation().objects() > kCountedObjects) {
      return std::nullopt;
    }
    proto::CheckTargetRequest request;
    request.mutable_target()->set_text(link.name());
    auto reply = Ask<proto::CheckTargetReply>(session, Method::kCheckTarget, request);
    if (!reply || reply->unknown_blocks() > 0) return std::nullopt;
    return reply->cached_objects();
  }

  void PrintJson(VerbContext& context, const proto::StatsReply& stats) const {
    boost::json::object document = NewDocument();
    document["time"] = Rfc3339Ms(stats.time_unix_ms());
    document["cluster"] = ClusterName(stats);
    document["ring_epoch"] = stats.ring_epoch();
    boost::json::array alerts;
    for (const proto::Alert& alert : stats.alerts()) alerts.emplace_back(AlertJson(alert));
    document["alerts"] = std::move(alerts);
    document["s3_limit"] = FillLimitsJson(stats.fill_limits());
    if (links_) {
      boost::json::array links;
      for (const proto::LinkStats& link : stats.links()) {
        links.emplace_back(
            LinkJson(link, CachedObjects(context.session, link), stats.window_seconds()));
      }
      document["links"] = std::move(links);
    }
    if (nodes_) {
      boost::json::array nodes;
      for (const proto::NodeStats& node : stats.nodes()) nodes.emplace_back(NodeJson(node));
      document["nodes"] = std::move(nodes);
    }
    if (jobs_) {
      boost::json::array jobs;
      for (const proto::JobStats& job : stats.jobs()) jobs.emplace_back(JobJson(job));
      document["jobs"] = std::move(jobs);
    }
    PrintDocument(context.console, document);
  }

  void PrintTables(const Console& console, const proto::StatsReply& stats) const {
    const char* gap = "";
    if (links_) {
      PrintLinks(console, stats);
      gap = "\n";
    }
    if (nodes_) {
      console.out << gap;
      PrintNodes(console, stats);
      gap = "\n";
    }
    // Jobs come and go: without any there is nothing to say, unless they were asked for.
    if (jobs_ && (!stats.jobs().empty() || !links_)) {
      console.out << gap;
      PrintJobs(console, stats);
    }
  }

  static void PrintLinks(const Console& console, const proto::StatsReply& stats) {
    if (stats.links().empty()) {
      console.out << "no links yet: `forebay link s3://bucket/prefix` makes one\n" << std::flush;
      return;
    }
    const std::string window = " " + FormatDuration(std::chrono::seconds(stats.window_seconds()));
    std::vector<Table::Column> columns;
    columns.push_back({.heading = "LINK"});
    for (const char* heading : {"READS", "READ", "HIT-RATIO", "MISSES", "S3-GETS", "S3-BYTES"}) {
      columns.push_back({.heading = heading, .right = true});
    }
    // Where nobody has said zones there is nothing to say.
    const bool zoned = std::ranges::any_of(stats.links(), [](const proto::LinkStats& link) {
      return link.total().cross_zone_bytes() > 0;
    });
    if (zoned) columns.push_back({.heading = "CROSS-ZONE", .right = true});
    if (console.wide()) {
      for (const char* heading : {"S3-RETRIES", "S3-ERRORS", "EVICTED"}) {
        columns.push_back({.heading = heading, .right = true});
      }
    }
    for (const char* heading : {"READS", "HIT-RATIO", "S3-GETS"}) {
      columns.push_back({.heading = heading + window, .right = true});
    }
    Table table(std::move(columns));
    for (const proto::LinkStats& link : stats.links()) {
      const proto::LinkCounters& total = link.total();
      const proto::LinkCounters& recent = link.window();
      std::vector<Cell> row = {Cell(link.name()),
                               Cell(HumanCount(total.reads())),
                               Cell(HumanBytes(total.read_bytes())),
                               Cell(RatioText(total)),
                               Cell(HumanCount(total.misses())),
                               Cell(HumanCount(total.s3_gets())),
                               Cell(HumanBytes(total.s3_bytes()))};
      if (zoned) row.emplace_back(HumanBytes(total.cross_zone_bytes()));
      if (console.wide()) {
        row.emplace_back(HumanCount(total.s3_retries()));
        row.emplace_back(HumanCount(total.s3_errors()));
        row.emplace_back(HumanBytes(total.evicted_bytes()));
      }
      row.emplace_back(HumanCount(recent.reads()));
      row.emplace_back(RatioText(recent));
      row.emplace_back(HumanCount(recent.s3_gets()));
      table.Add(std::move(row));
    }
    table.Print(console);
  }

  static void PrintJobs(const Console& console, const proto::StatsReply& stats) {
    if (stats.jobs().empty()) {
      console.out << "no job has read anything yet\n" << std::flush;
      return;
    }
    Table table = MakeJobTable();
    for (const proto::JobStats& job : stats.jobs()) table.Add(JobRow(job));
    table.Print(console);
  }

  static std::string RatioText(const proto::LinkCounters& counters) {
    if (counters.reads() == 0) return "-";
    return HumanPercent(HitRatio(counters.hits(), counters.reads()));
  }

  bool links_ = false;
  bool nodes_ = false;
  bool jobs_ = false;
  std::uint32_t window_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Verb> MakeStats() { return std::make_unique<StatsVerb>(); }

}  // namespace forebay
