#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/messages.h"
#include "coordinator/preload_records.h"
#include "coordinator/preloader.h"

// How a preload or a background fill that was begun is driven to its end.
namespace forebay {
namespace {

constexpr std::chrono::seconds kWriteAgainAfter{1};
/// Counting what is cached already, for --until.
constexpr std::chrono::minutes kCountPatience{10};
/// The same at its end, which waits for it.
constexpr std::chrono::seconds kCountAtEndPatience{5};
/// With further copies of which none can be made.
constexpr std::chrono::seconds kCopyPatience{30};
constexpr std::chrono::seconds kCopyAgainAfter{1};

Error LinkRemoved() { return Error{Code::kNotFound, "the link was removed"}; }

}  // namespace

void Preloader::Begin(JobPtr job, PlanPtr plan) {
  Spawn(context_, Drive(std::move(job), std::move(plan)));
}

Task<void> Preloader::Drive(JobPtr job, PlanPtr plan) {
  Status done = co_await Work(job, std::move(plan));
  const bool interrupted = stopping_ && !job->cancelled && !job->left;
  if (!interrupted) co_await End(job, std::move(done));
  job->run.reset();  // which holds the job
  running_.erase(job->task.id());
  ended_.NotifyAll();
  co_await PruneFiles();
}

Task<Status> Preloader::Work(JobPtr job, PlanPtr plan) {
  if (!plan) {
    Result<PlanPtr> again = co_await PlanAgain(job);
    if (!again) co_return Fail(again.error());
    plan = std::move(*again);
  }
  PreloadOrder order = co_await OrderFor(job, plan);
  if (job->cancelled || job->left || stopping_)
    co_return Fail(Code::kUnavailable, "the preload was stopped");
  job->run = std::make_shared<PreloadRun>(RunParts(job, plan), std::move(order));
  Status done = co_await job->run->Run();
  if (done) co_await MakeCopies(job, plan);
  if (done && job->record.verify()) done = co_await CheckUploads(job, plan);
  if (done && job->record.until_ratio() > 0) co_await CountAtEnd(job, plan);
  co_return done;
}

/// With --until a run ends before it has come to what was cached already. Where a node does not
/// answer, what the run itself kept is all that is said.
Task<void> Preloader::CountAtEnd(JobPtr job, PlanPtr plan) {
  if (stopping_ || job->cancelled) co_return;
  const Result<CacheTally> cached =
      co_await CountCached(job->record, plan, Deadline::After(kCountAtEndPatience));
  if (cached && cached->unknown_blocks == 0) job->counted_at_end = *cached;
}

/// Of a link with replicas. What cannot be copied is said, and no reason to fail: all is cached.
Task<void> Preloader::MakeCopies(JobPtr job, PlanPtr plan) {
  const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(job->record.link()));
  if (!link || link->spec.replicas < 2 || job->record.spare()) co_return;
  const std::function<bool()> stopped = [this, job] { return stopping_ || job->cancelled; };
  TimePoint gained = Clock::now();
  while (!stopped()) {
    const Result<CopyCounts> counts = co_await parts_.copies.Look(link->spec, plan, stopped);
    if (!counts) {
      if (!stopped()) spdlog::warn("preload {}: {}", job->task.id(), counts.error().message);
      co_return;
    }
    job->task.set_copies_missing(counts->left());
    parts_.tasks.Show(job->task);
    const TimePoint now = Clock::now();
    if (counts->copied > 0) gained = now;
    if (counts->failed == 0 || now - gained >= kCopyPatience) co_return;
    co_await SleepFor(kCopyAgainAfter);
  }
}

/// The plan of a job that goes on: of its generation where it is still there, else of the current
/// one.
Result<PreloadPlan> Preloader::PlanOf(const proto::PreloadRecord& record) {
  const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(record.link()));
  if (!link || !link->generation) return Fail(LinkRemoved());
  auto generation = parts_.index.Find(link->spec.id, record.generation());
  if (!generation) generation = parts_.index.Find(link->spec.id, link->generation->generation());
  if (!generation) return Fail(LinkRemoved());
  const std::optional<SnapshotRow> row = generation->snapshot()->Resolve(record.path());
  if (!row) return Fail(Code::kNotFound, "the target is not there any more");
  NameFiles files;
  if (!record.names_file().empty()) files.names = parts_.uploads.PathOf(record.names_file());
  if (!record.order_file().empty()) files.order = parts_.uploads.PathOf(record.order_file());
  return MakePreloadPlan(generation->snapshot(), *row, files,
                         record.spare() ? ArchivedObjects::kLeaveOut : ArchivedObjects::kTry);
}

Task<Result<Preloader::PlanPtr>> Preloader::PlanAgain(JobPtr job) {
  auto make = [this, record = job->record] { return PlanOf(record); };
  Result<PreloadPlan> made = co_await parts_.offload.Run(std::move(make));
  if (!made) co_return Fail(made.error());
  const std::uint64_t generation = made->snapshot->id().generation;
  if (generation != job->record.generation()) {
    job->record.set_generation(generation);
    job->record.set_cursor(0);
    PutCounts(job->task, {});
    job->task.set_quota_bound(false);
    parts_.tasks.ClearFailures(job->task.id());
  }
  job->task.set_total(made->objects);
  job->task.set_total_bytes(made->bytes);
  if (job->record.spare()) job->task.set_generation(generation);
  co_return std::make_shared<const PreloadPlan>(std::move(*made));
}

Task<PreloadOrder> Preloader::OrderFor(JobPtr job, PlanPtr plan) {
  const proto::PreloadRecord& record = job->record;
  PreloadOrder order;
  const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(record.link()));
  if (link) order.link = link->spec;
  order.plan = plan;
  order.from = {.cursor = record.cursor(), .counts = CountsOf(job->task)};
  order.verify = record.verify();
  order.spare = record.spare();
  order.bytes_per_second =
      record.spare() ? parts_.fill_bytes_per_second : record.bytes_per_second();
  if (record.until_ratio() == 0) co_return order;
  order.until_bytes = static_cast<std::uint64_t>(
      std::ceil(record.until_ratio() * static_cast<double>(plan->bytes)));
  const Result<CacheTally> cached =
      co_await CountCached(record, plan, Deadline::After(kCountPatience));
  if (cached) {
    order.cached_bytes = cached->cached_bytes;
  } else {
    spdlog::warn("preload {}: what is cached already is not known: {}", job->task.id(),
                 cached.error().message);
  }
  co_return order;
}

PreloadRun::Parts Preloader::RunParts(JobPtr job, PlanPtr plan) {
  return PreloadRun::Parts{
      .call = parts_.call,
      .offload = parts_.offload,
      .nodes =
          [this] {
            return PreloadRun::Nodes{.ring = parts_.membership.Table(),
                                     .up = parts_.membership.UpNodes()};
          },
      .show =
          [this, job](const PreloadProgress& progress) {
            PutCounts(job->task, progress.counts);
            job->task.set_quota_bound(job->task.quota_bound() || progress.quota_bound);
            job->task.set_bytes_per_second(progress.bytes_per_second);
            parts_.tasks.Show(job->task);
            return parts_.links.FindById(UuidFromBytes(job->record.link())).has_value();
          },
      .save =
          [this, job, plan](PreloadLedger::Checkpoint checkpoint,
                            std::vector<PreloadLedger::FailedObject> failed) {
            return Save(job, plan, checkpoint, std::move(failed));
          },
      .patience = parts_.patience};
}

Task<void> Preloader::Save(JobPtr job, PlanPtr plan, PreloadLedger::Checkpoint checkpoint,
                           std::vector<PreloadLedger::FailedObject> failed) {
  const bool nothing_new = failed.empty() && job->record.cursor() == checkpoint.cursor;
  if (nothing_new) co_return;
  job->record.set_cursor(checkpoint.cursor);
  proto::TaskState task = job->task;
  PutCounts(task, checkpoint.counts);
  auto write = [this, plan, task, record = job->record, failed = std::move(failed)]() -> Status {
    if (!failed.empty()) parts_.tasks.AddFailures(task.id(), Describe(*plan->snapshot, failed));
    StateBatch batch;
    TaskBook::Put(batch, task);
    parts_.tasks.PutFailures(batch, task.id());
    batch.Put(PreloadKey(task.id()), record.SerializeAsString());
    return parts_.store.Write(batch, parts_.fence);
  };
  Status saved = co_await parts_.offload.Run(std::move(write));
  if (!saved) spdlog::error("preload {} cannot be saved: {}", task.id(), saved.error().message);
}

/// The task as it is shown from now on.
proto::TaskState Preloader::EndedTask(const Job& job, const Status& done) const {
  const proto::TaskState& task = job.task;
  const bool removed = !done && !parts_.links.FindById(UuidFromBytes(job.record.link()));
  if (job.cancelled) return TaskBook::Cancelled(task, "it was cancelled");
  if (removed) return TaskBook::Cancelled(task, done.error().message);
  if (job.left) {
    proto::TaskState left = TaskBook::Ended(task, "");
    left.set_job_left(true);
    return left;
  }
  const std::string error =
      done ? FailureText(task, parts_.tasks.Failures(task.id())) : done.error().message;
  proto::TaskState ended = TaskBook::Ended(task, error);
  if (job.run && job.run->is_full()) {
    // Nothing was asked for what the walk has not come to.
    ended.set_no_room(true);
    ended.set_not_kept(task.total() - task.done() - task.failed());
    ended.set_not_kept_bytes(task.total_bytes() - task.bytes() - task.failed_bytes());
  }
  return ended;
}

Task<void> Preloader::End(JobPtr job, Status done) {
  const std::string id = job->task.id();
  if (job->run) {
    const PreloadProgress progress = job->run->progress();
    PutCounts(job->task, job->verified_counts.value_or(progress.counts));
    // What failed may have been cached by a reader since.
    if (const std::optional<CacheTally>& counted = job->counted_at_end) {
      const auto rest = [](std::uint64_t total, std::uint64_t failed) {
        return total - std::min(total, failed);
      };
      job->task.set_done(
          std::min(counted->cached_objects, rest(job->task.total(), job->task.failed())));
      job->task.set_bytes(
          std::min(counted->cached_bytes, rest(job->task.total_bytes(), job->task.failed_bytes())));
    }
    job->task.set_quota_bound(job->task.quota_bound() || progress.quota_bound);
  }
  job->task.set_bytes_per_second(0);
  job->task = EndedTask(*job, done);
  const proto::TaskState& task = job->task;
  const bool may_retry = task.state() == static_cast<std::uint32_t>(TaskPhase::kFailed);
  spdlog::info("{} of '{}' (task {}) ended: {} objects kept, {} failed, {} without room{}{}{}",
               task.kind(), task.target(), id, task.done(), task.failed(), task.not_kept(),
               task.job_left() ? "; no job reads the link any more" : "",
               task.error().empty() ? "" : ": ", task.error());
  for (;;) {
    auto write = [this, job, may_retry] {
      return Write(job->task, may_retry ? &job->record : nullptr);
    };
    Status written = co_await parts_.offload.Run(std::move(write));
    if (written || stopping_ || written.error().code == Code::kDenied) break;
    spdlog::error("the end of preload {} cannot be stored: {}", id, written.error().message);
    co_await SleepFor(kWriteAgainAfter);
  }
  if (may_retry) failed_[id] = job->record;
}

}  // namespace forebay
