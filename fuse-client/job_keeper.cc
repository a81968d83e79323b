#include "fuse-client/job_keeper.h"

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/rpc.h"
#include "fuse-client/job_messages.h"
#include "proto/handover.pb.h"

namespace forebay {

namespace {

constexpr std::string_view kJobs = "job/";
/// A ReportJobsRequest without jobs: the incarnation, and how nodes have answered.
constexpr std::string_view kReporter = "job-reporter";

std::string KeyOf(std::uint64_t serial) {
  // The slash ends the number, so that no key is the beginning of another one's.
  return std::string(kJobs) + std::to_string(serial) + "/";
}

}  // namespace

std::optional<std::uint64_t> JobKeeper::Resume() {
  std::vector<std::shared_ptr<JobReads>> jobs;
  for (const auto& [key, kept] : keeper_.TakeInherited(kJobs)) {
    proto::KeptJob job;
    if (ParseMessage(kept.value, job)) jobs.push_back(JobOf(job.row(), job.link_name()));
  }
  jobs_.Resume(std::move(jobs));
  std::optional<std::uint64_t> incarnation;
  for (const auto& [key, kept] : keeper_.TakeInherited(kReporter)) {
    proto::ReportJobsRequest totals;
    if (!ParseMessage(kept.value, totals)) continue;
    incarnation = totals.incarnation();
    for (const proto::NodeAnswers& node : totals.nodes()) {
      jobs_.answers().Resume(node.node(), node.reads(),
                             std::chrono::microseconds(static_cast<std::int64_t>(node.wait_us())));
    }
  }
  return incarnation;
}

void JobKeeper::Save(std::uint64_t incarnation) {
  if (!keeper_.supervised()) return;
  std::set<std::uint64_t> present;
  for (const std::shared_ptr<JobReads>& job : jobs_.All()) {
    const JobReads::View view = job->Look();
    present.insert(job->serial());
    std::uint64_t& saved = saved_[job->serial()];
    if (saved == view.changes || view.ended) continue;
    saved = view.changes;
    proto::KeptJob kept;
    WriteJob(*job, view, job->Unconfirmed(), *kept.mutable_row());
    kept.set_link_name(job->facts().name);
    keeper_.Keep(KeyOf(job->serial()), kept.SerializeAsString());
  }
  std::erase_if(saved_, [&](const auto& entry) {
    if (present.contains(entry.first)) return false;
    keeper_.Drop(KeyOf(entry.first));
    return true;
  });
  proto::ReportJobsRequest totals;
  totals.set_incarnation(incarnation);
  for (const auto& [node, sum] : jobs_.answers().Sums()) {
    proto::NodeAnswers& row = *totals.add_nodes();
    row.set_node(node);
    row.set_reads(sum.reads);
    row.set_wait_us(Microseconds(sum.waited));
  }
  std::string answers = totals.SerializeAsString();
  if (answers == saved_answers_) return;
  saved_answers_ = std::move(answers);
  keeper_.Keep(kReporter, saved_answers_);
}

}  // namespace forebay
