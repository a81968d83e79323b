#include "coordinator/preloader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
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
constexpr std::ptrdiff_t kMaxRunning = 16;
constexpr std::chrono::seconds kCancelPatience{10};
/// For a look whether anything of a link is missing before its background fill begins.
constexpr std::chrono::minutes kCompletePatience{1};
/// Of one background fill; the jobs beyond may begin another one after it.
constexpr int kMaxJobsOfFill = 64;

bool IsRunning(const proto::TaskState& task) {
  return task.state() == static_cast<std::uint32_t>(TaskPhase::kRunning);
}

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

Result<Preloader::Prepared> Preloader::Prepare(const proto::PreloadRequest& request,
                                               ArchivedObjects archived) {
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
  Result<PreloadPlan> plan = MakePreloadPlan(target->snapshot, target->row, files, archived);
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
  auto prepare = [this, request] { return Prepare(request, ArchivedObjects::kTry); };
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
  const auto asked_for = std::ranges::count_if(
      running_, [](const auto& entry) { return !entry.second->record.spare(); });
  if (asked_for >= kMaxRunning) {
    co_return Fail(
        Code::kOverloaded,
        fmt::format("{} preloads run already: wait for one of them, or cancel it", asked_for));
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
  LinkPriorities priorities;
  for (const LinkSpec& spec : parts_.links.Specs()) priorities[spec.id] = spec.priority;
  const PreloadRoom room{.disk_bytes = parts_.stats.RoomFor(link, priorities, up),
                         .quota_bytes = prepared.target.link.quota_bytes,
                         .link_bytes = parts_.stats.CachedBytes(link, up),
                         .replicas = prepared.target.link.replicas};
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
  job->task = TaskBook::Begin(prepared.record.spare() ? kFillKind : kPreloadKind, target);
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
    sum.unknown_blocks += tally.unknown_blocks;
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
      spdlog::info("{} of '{}' goes on (task {})", task->kind(), task->target(), task->id());
      running_.emplace(task->id(), job);
      Begin(job, nullptr);
    } else {
      failed_.emplace(task->id(), std::move(job->record));
    }
  }
  co_await PruneFiles();
  co_return Status();
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

Result<Preloader::Prepared> Preloader::PrepareFill(const Uuid& link) {
  const std::optional<Link> found = parts_.links.FindById(link);
  if (!found) return Fail(Code::kNotFound, "the link was removed");
  proto::PreloadRequest request;
  request.mutable_target()->set_text(found->spec.name);
  Result<Prepared> prepared = Prepare(request, ArchivedObjects::kLeaveOut);
  if (prepared) prepared->record.set_spare(true);
  return prepared;
}

Task<Result<bool>> Preloader::IsComplete(const Prepared& prepared) {
  // Other generations count here, too: exactly is only counted where it may be so.
  const std::vector<NodeInfo> up = parts_.membership.UpNodes();
  const std::uint64_t cached = parts_.stats.CachedBytes(prepared.target.link.id, up);
  if (cached < prepared.plan->bytes) co_return false;
  const Deadline deadline = Deadline::After(kCompletePatience);
  const Result<CacheTally> tally = co_await CountCached(prepared.record, prepared.plan, deadline);
  if (!tally) co_return Fail(tally.error());
  co_return tally->cached_blocks >= prepared.plan->blocks;
}

Task<Result<std::string>> Preloader::StartFill(Uuid link, std::string job_id) {
  auto prepare = [this, link] { return PrepareFill(link); };
  const Result<Prepared> prepared = co_await parts_.offload.Run(std::move(prepare));
  if (!prepared) co_return Fail(prepared.error());
  const Result<bool> complete = co_await IsComplete(*prepared);
  if (!complete) co_return Fail(complete.error());
  if (*complete) co_return std::string();
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  JobPtr job = NewJob(*prepared, prepared->target.link.name);
  job->task.set_link_id(BytesOf(link));
  job->task.set_generation(prepared->record.generation());
  job->task.add_jobs(job_id);
  running_.emplace(job->task.id(), job);
  Status begun = co_await StoreAndBegin(job, prepared->plan);
  if (!begun) co_return Fail(begun.error());
  spdlog::info("job {} reads much of '{}': the rest is filled (task {})", job_id,
               job->task.target(), job->task.id());
  co_return job->task.id();
}

void Preloader::JoinFill(const Uuid& link, const std::string& job_id) {
  for (const auto& [id, job] : running_) {
    if (!job->record.spare() || job->record.link() != BytesOf(link)) continue;
    if (job->task.jobs_size() < kMaxJobsOfFill) job->task.add_jobs(job_id);
    parts_.tasks.Show(job->task);
    return;
  }
}

void Preloader::EndFill(const std::string& id) {
  const auto found = running_.find(id);
  if (found == running_.end() || !found->second->record.spare()) return;
  found->second->left = true;
  if (found->second->run) found->second->run->Stop();
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
