#include "coordinator/preloader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "common/base/executors.h"
#include "common/base/wall_clock.h"
#include "common/wire/messages.h"
#include "coordinator/preload_records.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

/// Each holds a plan and a window of pieces; and the nodes' share for the background is one.
constexpr std::size_t kMaxRunning = 16;
constexpr std::chrono::seconds kCancelPatience{10};
constexpr std::chrono::seconds kWriteAgainAfter{1};
/// Counting what is cached already, for --until.
constexpr std::chrono::minutes kCountPatience{10};

bool IsRunning(const proto::TaskState& task) {
  return task.state() == static_cast<std::uint32_t>(TaskPhase::kRunning);
}

Error LinkRemoved() { return Error{Code::kNotFound, "the link was removed"}; }

void Fill(proto::PreloadReply& reply, const PreloadPlan& plan, const std::vector<NodeInfo>& up) {
  reply.set_objects(plan.objects);
  reply.set_bytes(plan.bytes);
  reply.set_blocks(plan.blocks);
  std::uint64_t capacity = 0;
  for (const NodeInfo& node : up) capacity += node.capacity_bytes;
  reply.set_capacity_bytes(capacity);
}

}  // namespace

Preloader::Preloader(asio::io_context& context, Parts parts)
    : context_(context), parts_(std::move(parts)) {}

Result<Preloader::Prepared> Preloader::Prepare(const proto::PreloadRequest& request) {
  const double until = request.until_ratio();
  if (!(until >= 0 && until <= 1)) {
    return Fail(Code::kInvalid, "--until is a share of the bytes: more than 0 and at most 100 %");
  }
  Result<LocatedTarget> target = LocateTarget(request.target().text(), parts_.links, parts_.index);
  if (!target) return Fail(target.error());
  proto::PreloadRecord record;
  record.set_link(BytesOf(target->link.id));
  record.set_path(target->snapshot->PathOf(target->row));
  record.set_verify(request.verify());
  record.set_bytes_per_second(request.bytes_per_second());
  record.set_until_ratio(until);
  record.set_generation(target->snapshot->id().generation);
  NameFiles files;
  const auto take = [&](const std::string& upload, std::string& path) -> Result<NameUploads::File> {
    if (upload.empty()) return NameUploads::File();
    path = parts_.uploads.PathOf(upload);
    return parts_.uploads.Complete(upload);
  };
  Result<NameUploads::File> names = take(request.names_upload(), files.names);
  if (!names) return Fail(names.error());
  Result<NameUploads::File> order = take(request.order_upload(), files.order);
  if (!order) return Fail(order.error());
  record.set_names_file(names->name);
  record.set_names_digest(names->digest);
  record.set_order_file(order->name);
  record.set_order_digest(order->digest);
  Result<PreloadPlan> plan = MakePreloadPlan(target->snapshot, target->row, files);
  if (!plan) return Fail(plan.error());
  if (plan->objects == 0) {
    return Fail(Code::kNotFound,
                fmt::format("there is nothing to preload: no object in {}",
                            request.names_upload().empty() ? "'" + request.target().text() + "'"
                                                           : std::string("the list of names")));
  }
  return Prepared{.target = std::move(*target),
                  .record = std::move(record),
                  .plan = std::make_shared<const PreloadPlan>(std::move(*plan))};
}

Preloader::JobPtr Preloader::FindSame(const proto::PreloadRecord& record) const {
  for (const auto& [id, job] : running_) {
    if (!job->cancelled && IsSamePreload(job->record, record)) return job;
  }
  return nullptr;
}

Task<Result<proto::PreloadReply>> Preloader::Start(proto::PreloadRequest request,
                                                   Deadline deadline) {
  auto prepare = [this, request] { return Prepare(request); };
  Result<Prepared> prepared = co_await parts_.offload.Run(std::move(prepare));
  Result<proto::PreloadReply> reply = proto::PreloadReply();
  if (prepared) {
    reply = co_await StartPrepared(std::move(*prepared), request, deadline);
  } else {
    reply = Fail(prepared.error());
  }
  // The start itself comes with the same uploads.
  if (request.room_only() && reply) co_return reply;
  // What a task took over stays.
  auto discard = [this, names = request.names_upload(),
                  order = request.order_upload()]() -> Status {
    parts_.uploads.EndUpload(names);
    parts_.uploads.EndUpload(order);
    return {};
  };
  (void)co_await parts_.offload.Run(std::move(discard));
  co_await PruneFiles();
  co_return reply;
}

Task<Result<proto::PreloadReply>> Preloader::StartPrepared(Prepared prepared,
                                                           proto::PreloadRequest request,
                                                           Deadline deadline) {
  proto::PreloadReply reply;
  reply.set_link(prepared.target.link.name);
  Fill(reply, *prepared.plan, parts_.membership.UpNodes());
  if (request.dry_run() || request.room_only()) {
    Result<proto::PreloadReply> looked =
        co_await Look(std::move(prepared), std::move(reply), request.dry_run(), deadline);
    co_return looked;
  }
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  const JobPtr same = FindSame(prepared.record);
  if (same) {
    reply.set_task_id(same->task.id());
    reply.set_joined(true);
    co_return reply;
  }
  if (running_.size() >= kMaxRunning) {
    co_return Fail(Code::kOverloaded,
                   fmt::format("{} preloads run already: wait for one of them, or cancel it",
                               running_.size()));
  }
  JobPtr job = NewJob(prepared, request.target().text());
  running_.emplace(job->task.id(), job);
  Status begun = co_await StoreAndBegin(job, prepared.plan);
  if (!begun) co_return Fail(begun.error());
  reply.set_task_id(job->task.id());
  co_return reply;
}

Task<Result<proto::PreloadReply>> Preloader::Look(Prepared prepared, proto::PreloadReply reply,
                                                  bool exactly, Deadline deadline) {
  const std::vector<NodeInfo> up = parts_.membership.UpNodes();
  const Uuid link = prepared.target.link.id;
  const PreloadRoom room{.disk_bytes = parts_.stats.RoomFor(link, up),
                         .quota_bytes = prepared.target.link.quota_bytes,
                         .link_bytes = parts_.stats.CachedBytes(link, up)};
  const double share = prepared.record.until_ratio();
  CacheTally cached;
  // For a large target the count takes long: where it fits in any case nobody needs it.
  if (exactly || !NeedOf(*prepared.plan, cached, share, room).fits()) {
    Result<CacheTally> counted = co_await CountCached(prepared.record, prepared.plan, deadline);
    if (!counted) co_return Fail(counted.error());
    cached = *counted;
  }
  const PreloadNeed need = NeedOf(*prepared.plan, cached, share, room);
  reply.set_cached_objects(cached.cached_objects);
  reply.set_cached_bytes(cached.cached_bytes);
  reply.set_cached_blocks(cached.cached_blocks);
  reply.set_needed_bytes(need.needed_bytes);
  reply.set_room_bytes(need.room_bytes);
  reply.set_quota_bound(need.quota_bound);
  co_return reply;
}

Preloader::JobPtr Preloader::NewJob(const Prepared& prepared, const std::string& target) {
  auto job = std::make_shared<Job>();
  job->task = TaskBook::Begin("preload", target);
  job->task.set_link(prepared.target.link.name);
  job->task.set_total(prepared.plan->objects);
  job->task.set_total_bytes(prepared.plan->bytes);
  job->record = prepared.record;
  job->record.set_task_id(job->task.id());
  return job;
}

Task<Status> Preloader::StoreAndBegin(JobPtr job, PlanPtr plan) {
  auto store = [this, job, plan] {
    Status written = Write(job->task, &job->record);
    asio::post(context_, [this, job, plan, stored = written.has_value()] {
      if (stored) {
        Begin(job, plan);
      } else {
        running_.erase(job->task.id());
      }
    });
    return written;
  };
  Status stored = co_await parts_.offload.Run(std::move(store));
  co_return stored;
}

Status Preloader::Write(const proto::TaskState& task, const proto::PreloadRecord* record) {
  StateBatch batch;
  TaskBook::Put(batch, task);
  parts_.tasks.PutFailures(batch, task.id());
  if (record != nullptr) {
    batch.Put(PreloadKey(task.id()), record->SerializeAsString());
  } else {
    batch.Delete(PreloadKey(task.id()));
  }
  for (std::string& key : parts_.tasks.TakeExpiredKeys()) batch.Delete(std::move(key));
  Status written = parts_.store.Write(batch, parts_.fence);
  if (written) parts_.tasks.Commit(task);
  return written;
}

Task<Result<CacheTally>> Preloader::CountCached(proto::PreloadRecord record, PlanPtr plan,
                                                Deadline deadline) {
  using Roots = std::vector<SnapshotRow>;
  auto find = [record = std::move(record), plan]() -> Result<Roots> {
    return RootsOf(record, *plan);
  };
  Result<Roots> roots = co_await parts_.offload.Run(std::move(find));
  if (!roots) co_return Fail(roots.error());
  // What a silent node holds helps no reader: the next owners fetch it.
  Result<CacheCount> count = co_await parts_.census.Count(
      plan->snapshot, std::move(*roots), parts_.membership.CurrentRoster(), deadline);
  if (!count) co_return Fail(count.error());
  CacheTally sum;
  for (const CacheTally& tally : count->tallies) {
    sum.cached_objects += tally.cached_objects;
    sum.cached_bytes += tally.cached_bytes;
    sum.cached_blocks += tally.cached_blocks;
    sum.cached_disk_bytes += tally.cached_disk_bytes;
  }
  co_return sum;
}

Task<Status> Preloader::Resume() {
  using Rows = std::vector<std::pair<std::string, std::string>>;
  auto scan = [this]() -> Result<Rows> { return parts_.store.Scan(PreloadKey("")); };
  Result<Rows> rows = co_await parts_.offload.Run(std::move(scan));
  if (!rows) co_return Fail(rows.error());
  for (const auto& [key, value] : *rows) {
    auto job = std::make_shared<Job>();
    Status decoded = DecodeRecord(value, job->record);
    if (!decoded) co_return Fail(decoded.error().Within("reading " + key));
    const std::optional<proto::TaskState> task = parts_.tasks.Find(job->record.task_id());
    if (!task) continue;
    job->task = *task;
    if (IsRunning(*task)) {
      spdlog::info("preload of '{}' goes on (task {})", task->target(), task->id());
      running_.emplace(task->id(), job);
      Begin(job, nullptr);
    } else {
      failed_.emplace(task->id(), std::move(job->record));
    }
  }
  co_await PruneFiles();
  co_return Status();
}

void Preloader::Begin(JobPtr job, PlanPtr plan) {
  Spawn(context_, Drive(std::move(job), std::move(plan)));
}

Task<void> Preloader::Drive(JobPtr job, PlanPtr plan) {
  Status done = co_await Work(job, std::move(plan));
  const bool interrupted = stopping_ && !job->cancelled;
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
  if (job->cancelled || stopping_) co_return Fail(Code::kUnavailable, "the preload was stopped");
  job->run = std::make_shared<PreloadRun>(RunParts(job, plan), std::move(order));
  Status done = co_await job->run->Run();
  co_return done;
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
  return MakePreloadPlan(generation->snapshot(), *row, files);
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
    parts_.tasks.ClearFailures(job->task.id());
  }
  job->task.set_total(made->objects);
  job->task.set_total_bytes(made->bytes);
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
  order.bytes_per_second = record.bytes_per_second();
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

Task<void> Preloader::End(JobPtr job, Status done) {
  const std::string id = job->task.id();
  if (job->run) PutCounts(job->task, job->run->progress().counts);
  job->task.set_bytes_per_second(0);
  std::string error =
      done ? FailureText(job->task, parts_.tasks.Failures(id)) : done.error().message;
  const bool removed = !done && !parts_.links.FindById(UuidFromBytes(job->record.link()));
  if (job->cancelled) error = "it was cancelled";
  proto::TaskState task = TaskBook::Ended(job->task, error);
  if (job->cancelled || removed) {
    task.set_state(static_cast<std::uint32_t>(TaskPhase::kCancelled));
  }
  const bool may_retry = task.state() == static_cast<std::uint32_t>(TaskPhase::kFailed);
  job->task = task;
  spdlog::info("preload of '{}' (task {}) ended: {} objects kept, {} failed, {} without room{}{}",
               task.target(), id, task.done(), task.failed(), task.not_kept(),
               error.empty() ? "" : ": ", error);
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

Task<Result<bool>> Preloader::Cancel(std::string id) {
  const auto found = running_.find(id);
  if (found == running_.end()) co_return false;
  const JobPtr job = found->second;
  job->cancelled = true;
  if (job->run) job->run->Stop();
  const Deadline deadline = Deadline::After(kCancelPatience);
  while (running_.contains(id)) {
    Notifier::Ticket ticket = ended_.Enlist(context_.get_executor());
    if (!running_.contains(id)) break;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return Fail(Code::kTimeout, "task " + id + " is still ending: ask again");
  }
  co_return true;
}

Task<Result<proto::TaskState>> Preloader::Retry(std::string id) {
  const auto failed = failed_.find(id);
  const std::optional<proto::TaskState> task = parts_.tasks.Find(id);
  if (failed == failed_.end() || !task)
    co_return Fail(Code::kInvalid, "task " + id + " cannot be tried again");
  if (!parts_.links.FindById(UuidFromBytes(failed->second.link())))
    co_return Fail(Code::kNotFound, "the link of task " + id + " was removed");
  auto job = std::make_shared<Job>();
  job->record = std::move(failed->second);
  failed_.erase(failed);
  job->record.set_cursor(0);
  job->record.set_generation(0);  // the current one
  job->task = *task;
  PutCounts(job->task, {});
  job->task.set_state(static_cast<std::uint32_t>(TaskPhase::kRunning));
  job->task.set_error("");
  job->task.set_started_unix_s(UnixSeconds());
  job->task.set_ended_unix_s(0);
  parts_.tasks.ClearFailures(id);
  running_.emplace(id, job);
  Status begun = co_await StoreAndBegin(job, nullptr);
  if (!begun) co_return Fail(begun.error());
  co_return job->task;
}

Task<void> Preloader::PruneFiles() {
  // The lists of what is interrupted by now are needed by the next start, which prunes.
  if (stopping_) co_return;
  std::erase_if(failed_, [this](const auto& entry) { return !parts_.tasks.Find(entry.first); });
  std::set<std::string> needed;
  const auto need = [&needed](const proto::PreloadRecord& record) {
    needed.insert(record.names_file());
    needed.insert(record.order_file());
  };
  for (const auto& [id, job] : running_) need(job->record);
  for (const auto& [id, record] : failed_) need(record);
  auto prune = [this, needed = std::move(needed)]() -> Status {
    parts_.uploads.Prune(needed);
    return {};
  };
  (void)co_await parts_.offload.Run(std::move(prune));
}

Task<void> Preloader::Stop() {
  stopping_ = true;
  for (const auto& [id, job] : running_) {
    if (job->run) job->run->Stop();
  }
  while (!running_.empty()) {
    Notifier::Ticket ticket = ended_.Enlist(context_.get_executor());
    if (running_.empty()) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
}

}  // namespace forebay
