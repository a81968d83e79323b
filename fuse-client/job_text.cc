#include "fuse-client/job_text.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>

#include "common/base/machine_id.h"
#include "common/base/units.h"
#include "common/model/limits.h"

namespace forebay {

namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

boost::json::object JobJson(const JobReads& job, const JobReads::View& view) {
  const JobTotals& totals = view.totals;
  boost::json::object bytes;
  boost::json::object waits;
  for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
    const auto i = static_cast<std::size_t>(tier);
    bytes[TierName(tier)] = totals.bytes[i];
    waits[TierName(tier)] = Seconds(totals.waited[i]);
  }
  waits["detour"] = Seconds(totals.detour);
  const bool known = view.epoch != 0;
  boost::json::object out;
  out["id"] = job.id();
  out["link"] = job.facts().name;
  out["generation"] = job.facts().generation;
  out["processes"] = view.processes;
  out["epoch"] = known ? boost::json::value(view.epoch) : boost::json::value();
  out["progress"] = known ? boost::json::value(view.progress) : boost::json::value();
  out["reads"] = totals.reads;
  out["failed_reads"] = totals.failed_reads;
  out["read_bytes"] = std::move(bytes);
  out["read_seconds"] = {{"p50", QuantileOf(totals.durations, 0.5)},
                         {"p99", QuantileOf(totals.durations, 0.99)}};
  out["wait_seconds"] = std::move(waits);
  out["busy_seconds"] = Seconds(totals.busy);
  out["stall_seconds"] = Seconds(totals.Stalled());
  return out;
}

}  // namespace

std::string OwnJobId(std::string_view mountpoint) {
  std::string id = HostName() + ":" + std::string(mountpoint);
  // A longer path would be refused by every node; its end says more than its beginning.
  if (id.size() > kMaxJobIdBytes) id.erase(0, id.size() - kMaxJobIdBytes);
  return id;
}

boost::json::array JobsJson(const JobTable& jobs) {
  boost::json::array array;
  for (const std::shared_ptr<JobReads>& job : jobs.All()) {
    const JobReads::View view = job->Look();
    if (!view.ended) array.emplace_back(JobJson(*job, view));
  }
  return array;
}

std::string JobLine(const JobReads& job) {
  const JobTotals totals = job.Look().totals;
  const auto tier = [&](Tier which) {
    const auto i = static_cast<std::size_t>(which);
    return fmt::format("{} in {:.1f} s", HumanBytes(totals.bytes[i]), Seconds(totals.waited[i]));
  };
  return fmt::format(
      "job {} on {}: {} reads, half within {} s and 99 % within {} s: {} from local caches, {} "
      "from "
      "peers, {} from S3; waited {:.1f} s for nodes that did not answer; {} failed",
      job.id(), job.facts().name, totals.reads, QuantileOf(totals.durations, 0.5),
      QuantileOf(totals.durations, 0.99), tier(Tier::kLocal), tier(Tier::kPeer), tier(Tier::kS3),
      Seconds(totals.detour), totals.failed_reads);
}

void LogJobs(const JobTable& jobs) {
  const std::vector<std::shared_ptr<JobReads>> all = jobs.All();
  for (std::size_t i = 0; i < std::min(all.size(), kLoggedJobs); ++i) {
    spdlog::info("{}", JobLine(*all[i]));
  }
  if (all.size() > kLoggedJobs) spdlog::info("and {} more jobs", all.size() - kLoggedJobs);
}

}  // namespace forebay
