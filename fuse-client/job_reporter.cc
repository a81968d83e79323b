#include "fuse-client/job_reporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <random>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/client_pool.h"
#include "common/wire/messages.h"
#include "fuse-client/job_messages.h"

namespace forebay {

namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(3);

/// Of one request, so that it fits into a control frame (1 MiB) with ids of full length.
constexpr int kMaxJobsPerReport = 128;
constexpr std::size_t kMaxTouchesPerReport = 32UL * 1024;
/// A block's hash takes the room of so many touches.
constexpr std::size_t kTouchesPerHash = 3;

std::uint64_t RandomNumber() {
  std::random_device random;
  return (static_cast<std::uint64_t>(random()) << 32) | random();
}

}  // namespace

/// One request, and what it speaks of.
struct JobReporter::Batch {
  struct Job {
    std::shared_ptr<JobReads> job;
    std::uint64_t changes = 0;
    std::size_t dense = 0;  // blocks
    bool ended = false;
  };
  proto::ReportJobsRequest request;
  std::vector<Job> jobs;
};

JobReporter::JobReporter(asio::io_context& context, ClientPool& pool, JobTable& jobs,
                         const NodePace& pace, std::vector<std::string> coordinators,
                         std::function<void()> keep)
    : context_(context),
      jobs_(jobs),
      pace_(pace),
      coordinators_(pool, std::move(coordinators)),
      keep_(std::move(keep)),
      incarnation_(RandomNumber()) {}

void JobReporter::Start() { Spawn(context_, Run()); }

bool JobReporter::HasNews() const {
  return std::ranges::any_of(jobs_.All(),
                             [](const auto& job) { return job->HasManyDenseBlocks(); });
}

Task<void> JobReporter::Run() {
  TimePoint next = Clock::now() + kEvery;
  TimePoint next_keep = Clock::now() + kKeepEvery;
  for (;;) {
    co_await SleepFor(kLookEvery);
    if (stopped_) co_return;
    const TimePoint now = Clock::now();
    if (keep_ && now >= next_keep) {
      keep_();
      next_keep = now + kKeepEvery;
    }
    if (now < next && !HasNews()) continue;
    next = now + kEvery;
    jobs_.EndIdle(Clock::now());
    const Status told = co_await ReportOnce(Deadline::After(kEvery));
    if (!told) spdlog::debug("jobs were not reported: {}", told.error().message);
  }
}

void JobReporter::AddNewAnswers(proto::ReportJobsRequest& request) {
  for (const auto& [node, sum] : jobs_.answers().Sums()) {
    const ToldAnswers now{.reads = sum.reads, .slow = pace_.IsSlow(node)};
    if (std::exchange(answers_told_[node], now) == now) continue;
    proto::NodeAnswers& row = *request.add_nodes();
    row.set_node(node);
    row.set_reads(sum.reads);
    row.set_wait_us(Microseconds(sum.waited));
    row.set_slow(now.slow);
  }
}

std::vector<JobReporter::Batch> JobReporter::DueBatches(TimePoint now) {
  std::vector<Batch> batches;
  std::size_t touches_in_batch = 0;
  for (const std::shared_ptr<JobReads>& job : jobs_.All()) {
    const JobReads::View view = job->Look();
    const auto told = told_.find(job->serial());
    if (told != told_.end() && told->second.changes == view.changes && !view.ended &&
        now - told->second.at < kAliveEvery) {
      continue;
    }
    const JobReads::Touches touches = job->Unconfirmed();
    const std::vector<std::uint64_t> dense = job->DenseBlocks(now);
    const std::size_t entries = touches.places.size() + dense.size() * kTouchesPerHash;
    touches_in_batch += entries;
    if (batches.empty() || batches.back().request.jobs_size() >= kMaxJobsPerReport ||
        touches_in_batch > kMaxTouchesPerReport) {
      touches_in_batch = entries;
      Batch& batch = batches.emplace_back();
      batch.request.set_incarnation(incarnation_);
      if (batches.size() == 1) AddNewAnswers(batch.request);
    }
    Batch& batch = batches.back();
    proto::MountJob& row = *batch.request.add_jobs();
    WriteJob(*job, view, touches, row);
    row.mutable_read_blocks()->Add(dense.begin(), dense.end());
    batch.jobs.push_back(Batch::Job{
        .job = job, .changes = view.changes, .dense = dense.size(), .ended = view.ended});
  }
  return batches;
}

void JobReporter::Confirm(const Batch& batch, const proto::ReportJobsReply& reply) {
  const std::size_t count =
      std::min(batch.jobs.size(), static_cast<std::size_t>(reply.jobs_size()));
  for (std::size_t i = 0; i < count; ++i) {
    const Batch::Job& reported = batch.jobs[i];
    const proto::JobProgress& progress = reply.jobs(static_cast<int>(i));
    reported.job->Confirm(progress.touched_until(), progress.epoch(), progress.progress());
    reported.job->ConfirmDense(reported.dense, progress.count_reads());
    told_[reported.job->serial()] = Told{.changes = reported.changes, .at = Clock::now()};
    if (!reported.ended) continue;
    told_.erase(reported.job->serial());
    jobs_.Remove(reported.job);
  }
}

Task<Status> JobReporter::Send(const Batch* batch, Deadline deadline) {
  const Duration patience = std::min<Duration>(kCallTimeout, deadline.Remaining());
  const Result<RpcReply> reply =
      co_await coordinators_.Ask(Method::kReportJobs, batch->request, patience);
  if (!reply) {
    // The next report has these again.
    for (const proto::NodeAnswers& row : batch->request.nodes()) answers_told_.erase(row.node());
    co_return Fail(reply.error());
  }
  proto::ReportJobsReply message;
  const Status parsed = ParseMessage(reply->message, message);
  if (!parsed) co_return parsed;
  Confirm(*batch, message);
  co_return Status{};
}

Task<Status> JobReporter::ReportOnce(Deadline deadline) {
  Status status;
  if (keep_) keep_();
  const std::vector<Batch> batches = DueBatches(Clock::now());
  for (const Batch& batch : batches) {
    Status sent = co_await Send(&batch, deadline);
    if (!sent) status = std::move(sent);
  }
  co_return status;
}

void JobReporter::FinishFrom(Deadline deadline) {
  for (const std::shared_ptr<JobReads>& job : jobs_.All()) job->EndUnlessReading();
  auto finish = [](JobReporter* self, Deadline until) -> Task<Status> {
    self->stopped_ = true;
    Status told = co_await self->ReportOnce(until);
    co_return told;
  };
  std::future<Status> done = asio::co_spawn(context_, finish(this, deadline), asio::use_future);
  if (done.wait_until(deadline.at()) != std::future_status::ready) return;
  const Status told = done.get();
  if (!told) spdlog::debug("the last report of jobs was lost: {}", told.error().message);
}

}  // namespace forebay
