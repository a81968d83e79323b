#include "cli/explain_job.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <ostream>
#include <vector>

#include "cli/cluster_stats.h"
#include "cli/job_advice.h"
#include "cli/job_table.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/task_view.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {

namespace {

std::string Elapsed(std::uint64_t microseconds) {
  return HumanDuration(std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::microseconds(microseconds)));
}

/// The background fills that run of links that the job reads.
std::vector<proto::TaskState> FillsOf(const proto::DescribeJobReply& job,
                                      const proto::StatsReply& cluster) {
  std::vector<proto::TaskState> fills;
  for (const proto::TaskState& fill : cluster.fills()) {
    for (const proto::JobStats& row : job.links()) {
      if (row.link() == fill.link()) fills.push_back(fill);
    }
  }
  return fills;
}

void PrintJson(const Console& console, const std::string& id, const proto::DescribeJobReply& job,
               const JobSummary& summary, const std::vector<proto::TaskState>& fills,
               const Advice& advice) {
  boost::json::object document = NewDocument();
  document["job"] = ValidUtf8(id);
  document["active"] = job.active();
  document["mounts"] = job.mounts();
  document["processes"] = job.processes();
  boost::json::array links;
  for (const proto::JobStats& row : job.links()) links.emplace_back(JobJson(row));
  document["links"] = std::move(links);
  document["reads"] = job.waits().reads();
  document["failed_reads"] = job.waits().failed_reads();
  document["wait_seconds"] = static_cast<double>(summary.waited.count()) / 1e6;
  boost::json::object shares;
  shares["page"] = nullptr;
  shares["local"] = summary.shares.local;
  shares["peer"] = summary.shares.peers;
  shares["s3"] = summary.shares.s3;
  shares["stalled"] = summary.shares.stalls;
  document["shares"] = std::move(shares);
  document["reads_in_flight"] = summary.reads_in_flight;
  boost::json::array nodes;
  for (const proto::NodeAnswers& node : job.nodes()) {
    boost::json::object& out = nodes.emplace_back(boost::json::object()).as_object();
    out["id"] = ValidUtf8(node.node());
    out["reads"] = node.reads();
    out["wait_seconds"] = static_cast<double>(node.wait_us()) / 1e6;
  }
  document["nodes"] = std::move(nodes);
  boost::json::array fill_rows;
  for (const proto::TaskState& fill : fills) fill_rows.emplace_back(TaskJson(fill));
  document["fills"] = std::move(fill_rows);
  boost::json::object sentence;
  sentence["kind"] = AdviceName(advice.kind);
  sentence["text"] = ValidUtf8(advice.text);
  document["advice"] = std::move(sentence);
  PrintDocument(console, document);
}

void PrintShare(const Console& console, const char* what, double share, std::uint64_t waited_us,
                std::uint64_t bytes) {
  console.out << fmt::format("  {:<13}{:>8}  {:>12}  {:>10}\n", what, HumanPercent(share),
                             Elapsed(waited_us), HumanBytes(bytes));
}

void PrintText(const Console& console, const std::string& id, const proto::DescribeJobReply& job,
               const JobSummary& summary, const std::vector<proto::TaskState>& fills,
               const Advice& advice) {
  if (job.active()) {
    console.out << fmt::format("job {} reads on {} mount{} with {} process{}\n\n", Escaped(id),
                               job.mounts(), job.mounts() == 1 ? "" : "s", job.processes(),
                               job.processes() == 1 ? "" : "es");
  } else {
    console.out << fmt::format("job {} does not read now\n\n", Escaped(id));
  }
  Table table = MakeJobTable();
  for (const proto::JobStats& row : job.links()) table.Add(JobRow(row));
  table.Print(console);
  const proto::JobWaits& waits = job.waits();
  console.out << fmt::format(
      "\n{} reads waited {}, summed over reads, {:.1f} at a time:\n", HumanCount(waits.reads()),
      Elapsed(static_cast<std::uint64_t>(summary.waited.count())), summary.reads_in_flight);
  console.out << "  page cache    not known: the kernel serves it without asking\n";
  PrintShare(console, "local cache", summary.shares.local, waits.local_us(), waits.local_bytes());
  PrintShare(console, "peers", summary.shares.peers, waits.peer_us(), waits.peer_bytes());
  PrintShare(console, "S3", summary.shares.s3, waits.s3_us(), waits.s3_bytes());
  console.out << fmt::format("  {:<13}{:>8}  {:>12}  {} failed\n", "stalls",
                             HumanPercent(summary.shares.stalls), Elapsed(waits.detour_us()),
                             HumanCount(waits.failed_reads()));
  for (const proto::TaskState& fill : fills) console.out << "\nfilling " << FillText(fill) << '\n';
  console.out << "\n" << advice.text << "\n" << std::flush;
}

}  // namespace

Outcome ExplainJob(VerbContext& context, const std::string& job) {
  proto::DescribeJobRequest request;
  request.set_job(job);
  auto reply = Ask<proto::DescribeJobReply>(context.session, Method::kDescribeJob, request);
  if (!reply) {
    if (reply.error().error.code != Code::kNotFound) return std::unexpected(reply.error());
    return std::unexpected(
        Failure(reply.error().error, "`forebay stats --jobs` shows those that have"));
  }
  auto cluster = AskStats(context.session);
  if (!cluster) return std::unexpected(cluster.error());
  const JobSummary summary = SummaryOf(*reply);
  const std::vector<proto::TaskState> fills = FillsOf(*reply, *cluster);
  const Advice advice = AdviceFor(*reply, *cluster);
  if (context.console.json()) {
    PrintJson(context.console, job, *reply, summary, fills, advice);
  } else {
    PrintText(context.console, job, *reply, summary, fills, advice);
  }
  return Exit::kDone;
}

}  // namespace forebay
