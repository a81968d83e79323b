#include "coordinator/drainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/executors.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kWriteAgainAfter{1};
constexpr std::chrono::seconds kStopPatience{5};
/// A change of the members is one write to the state store.
constexpr std::chrono::seconds kChangePatience{30};

bool IsRunning(const proto::TaskState& task) {
  return task.state() == static_cast<std::uint32_t>(TaskPhase::kRunning);
}

void PutProgress(proto::TaskState& task, const DrainProgress& progress) {
  task.set_total(progress.total);
  task.set_total_bytes(progress.total_bytes);
  task.set_done(progress.done);
  task.set_bytes(progress.bytes);
  task.set_not_kept(progress.not_kept);
  task.set_not_kept_bytes(progress.not_kept_bytes);
  task.set_bytes_per_second(progress.bytes_per_second);
}

}  // namespace

/// The outcome of work that goes on when the caller who waits for it is gone.
template <typename T>
struct Drainer::Promise {
  std::optional<T> value;
  Notifier kept;

  void Keep(T outcome) {
    value = std::move(outcome);
    kept.NotifyAll();
  }
};

namespace {

template <typename PromisePtr, typename T>
Task<T> WaitFor(asio::any_io_executor executor, PromisePtr promise, T late) {
  const Deadline deadline = Deadline::After(kChangePatience);
  while (!promise->value) {
    Notifier::Ticket ticket = promise->kept.Enlist(executor);
    if (promise->value) break;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified && !promise->value) co_return late;
  }
  co_return std::move(*promise->value);
}

Error Late() {
  return Error{Code::kTimeout,
               "the coordinator's state directory does not answer: `forebay nodes` will show what "
               "has become of it"};
}

}  // namespace

Drainer::Drainer(asio::io_context& context, Parts parts)
    : context_(context), parts_(std::move(parts)) {}

void Drainer::Resume() {
  for (const proto::TaskState& task : parts_.tasks.All()) {
    if (task.kind() != kDrainKind || !IsRunning(task) || running_.contains(task.target())) continue;
    spdlog::info("the drain of node {} goes on (task {})", task.target(), task.id());
    const JobPtr job = NewJob(task);
    running_.emplace(job->node, job);
    Spawn(context_, Drive(job));
  }
}

Drainer::JobPtr Drainer::NewJob(proto::TaskState task) {
  auto job = std::make_shared<Job>();
  job->node = task.target();
  job->task = std::move(task);
  job->run = std::make_shared<DrainRun>(RunParts(job), job->node);
  return job;
}

Task<Result<Drainer::Started>> Drainer::Start(std::string node) {
  auto promise = std::make_shared<Promise<Result<Started>>>();
  Spawn(context_, KeepStart(std::move(node), promise));
  const Result<Started> late = Fail(Late());
  Result<Started> started = co_await WaitFor(context_.get_executor(), promise, late);
  co_return started;
}

Task<void> Drainer::KeepStart(std::string node, StartPromise promise) {
  Result<Started> started = co_await StartNow(std::move(node));
  promise->Keep(std::move(started));
}

/// Who drains what is drained has what was asked for.
std::optional<Drainer::Started> Drainer::DoneBefore(const std::string& node) const {
  const std::vector<MemberView> members = parts_.membership.Members();
  const bool is_drained = std::ranges::any_of(members, [&](const MemberView& member) {
    return member.info.id == node && member.dismissal == Dismissal::kDrained;
  });
  if (!is_drained) return std::nullopt;
  std::optional<Started> last;
  for (const proto::TaskState& task : parts_.tasks.All()) {
    const bool is_done = task.state() == static_cast<std::uint32_t>(TaskPhase::kDone);
    if (is_done && task.kind() == kDrainKind && task.target() == node)
      last = Started{.task_id = task.id(), .joined = true};
  }
  return last;
}

Task<Result<Drainer::Started>> Drainer::StartNow(std::string node) {
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  const auto same = running_.find(node);
  if (same != running_.end() && !same->second->ended) {
    Started joined;
    joined.task_id = same->second->task.id();
    joined.joined = true;
    co_return joined;
  }
  if (std::optional<Started> before = DoneBefore(node)) co_return *std::move(before);
  const JobPtr job = NewJob(TaskBook::Begin(kDrainKind, node));
  running_[node] = job;
  StateBatch batch;
  TaskBook::Put(batch, job->task);
  ClusterMembers::Plan plan = [node](const MemberTable& members, TimePoint now, std::int64_t) {
    return members.PlanDrain(node, now);
  };
  Result<bool> changed = co_await parts_.membership.Change(std::move(plan), batch);
  Status begun = changed ? Status() : Fail(changed.error());
  // It is draining since an earlier task, which failed.
  if (changed && !*changed) begun = co_await Write(std::move(batch));
  if (!begun) {
    running_.erase(node);
    ended_.NotifyAll();
    co_return Fail(begun.error());
  }
  parts_.tasks.Commit(job->task);
  Spawn(context_, Drive(job));
  Started started;
  started.task_id = job->task.id();
  co_return started;
}

Task<Result<bool>> Drainer::Change(std::string node, ClusterMembers::Plan plan,
                                   std::string reason) {
  auto promise = std::make_shared<Promise<Result<bool>>>();
  Spawn(context_, KeepChange(std::move(node), std::move(plan), std::move(reason), promise));
  const Result<bool> late = Fail(Late());
  Result<bool> changed = co_await WaitFor(context_.get_executor(), promise, late);
  co_return changed;
}

Task<void> Drainer::KeepChange(std::string node, ClusterMembers::Plan plan, std::string reason,
                               ChangePromise promise) {
  Result<bool> changed = co_await ChangeNow(std::move(node), std::move(plan), std::move(reason));
  promise->Keep(std::move(changed));
}

Task<Result<bool>> Drainer::ChangeNow(std::string node, ClusterMembers::Plan plan,
                                      std::string reason) {
  StateBatch also;
  JobPtr job;
  proto::TaskState cancelled;
  const auto running = running_.find(node);
  if (running != running_.end() && !running->second->ended) {
    job = running->second;
    cancelled = TaskBook::Cancelled(job->task, reason);
    TaskBook::Put(also, cancelled);
  }
  Result<bool> changed = co_await parts_.membership.Change(std::move(plan), std::move(also));
  if (changed && *changed && job) {
    job->ended = true;
    job->task = cancelled;
    job->run->Stop();
    parts_.tasks.Commit(cancelled);
  }
  co_return changed;
}

Task<Status> Drainer::Cancel(std::string task_id) {
  const std::optional<proto::TaskState> task = parts_.tasks.Find(task_id);
  if (!task) co_return Fail(Code::kNotFound, "there is no such task");
  const std::string node = task->target();
  ClusterMembers::Plan plan = [node](const MemberTable& members, TimePoint, std::int64_t) {
    return members.PlanReturn(node);
  };
  Result<bool> changed = co_await Change(node, std::move(plan), "it was cancelled");
  co_return changed ? Status() : Fail(changed.error());
}

DrainRun::Parts Drainer::RunParts(const JobPtr& job) {
  return DrainRun::Parts{.call = parts_.call,
                         .offload = parts_.offload,
                         .roster = [this] { return parts_.membership.CurrentRoster(); },
                         .sources = [this, node = job->node] { return Sources(node); },
                         .show =
                             [this, weak = std::weak_ptr<Job>(job)](const DrainProgress& progress) {
                               const JobPtr shown = weak.lock();
                               if (!shown || shown->ended) return;
                               PutProgress(shown->task, progress);
                               parts_.tasks.Show(shown->task);
                             },
                         .patience = parts_.patience,
                         .bytes_per_second = parts_.bytes_per_second};
}

/// All blocks of the link's generation.
Result<PreloadPlan> Drainer::PlanOf(const Link& link) const {
  const auto here =
      link.generation ? parts_.index.Find(link.spec.id, link.generation->generation()) : nullptr;
  if (!here) return Fail(Code::kUnavailable, "its listing is not here");
  const std::optional<SnapshotRow> root = here->snapshot()->Resolve("");
  if (!root) return Fail(Code::kCorrupt, "its listing has no root");
  Result<PreloadPlan> plan = MakePreloadPlan(here->snapshot(), *root, NameFiles());
  return plan;
}

/// Links that were read last come first.
DrainRun::Sources Drainer::Sources(const std::string& node) const {
  DrainRun::Sources sources;
  std::vector<std::pair<Duration, DrainRun::Source>> found;
  for (const Link& link : parts_.links.All()) {
    Result<PreloadPlan> plan = PlanOf(link);
    if (!plan) {
      const std::optional<std::uint64_t> held = parts_.stats.CachedBytesAt(node, link.spec.id);
      if (!held || *held > 0) {
        sources.not_listed =
            fmt::format("{} of link '{}', and {}: `forebay links` says when it has one",
                        held ? "it holds some" : "it has not said yet whether it holds any",
                        link.spec.name, plan.error().message);
      }
      continue;
    }
    const std::optional<JobActivity> reader = parts_.stats.LastReader(link.spec.id);
    found.emplace_back(
        reader ? reader->idle : Duration::max(),
        DrainRun::Source{link.spec, std::make_shared<const PreloadPlan>(std::move(*plan))});
  }
  std::ranges::sort(found, {}, [](const auto& entry) {
    return std::pair(entry.first, std::string_view(entry.second.link.name));
  });
  sources.listed.reserve(found.size());
  for (auto& [idle, source] : found) sources.listed.push_back(std::move(source));
  return sources;
}

Task<void> Drainer::Drive(JobPtr job) {
  Status done = co_await job->run->Run();
  if (!job->ended && !(stopping_ && !done)) co_await End(job, std::move(done));
  const auto mine = running_.find(job->node);
  if (mine != running_.end() && mine->second == job) running_.erase(mine);
  ended_.NotifyAll();
}

/// With the task ends what it means for the node.
Task<void> Drainer::End(JobPtr job, Status done) {
  const std::string& node = job->node;
  job->task.set_bytes_per_second(0);
  if (done) {
    const proto::TaskState ended = TaskBook::Ended(job->task, "");
    StateBatch batch;
    TaskBook::Put(batch, ended);
    for (std::string& key : parts_.tasks.TakeExpiredKeys()) batch.Delete(std::move(key));
    ClusterMembers::Plan plan = [node](const MemberTable& members, TimePoint now,
                                       std::int64_t unix_s) {
      return members.PlanDismissal(node, Dismissal::kDrained, now, unix_s);
    };
    Result<bool> changed = co_await parts_.membership.Change(std::move(plan), std::move(batch));
    if (job->ended) co_return;
    if (changed) {
      parts_.tasks.Commit(ended);
      spdlog::info(
          "node {} is drained and out of the cluster, ring epoch {} (task {}): {} blocks with {} "
          "bytes are at other nodes, {} found no room; its machine may be stopped",
          node, parts_.membership.epoch(), ended.id(), ended.done(), ended.bytes(),
          ended.not_kept());
      co_return;
    }
    done = Fail(changed.error());
  }
  job->task = TaskBook::Ended(job->task, done.error().message);
  spdlog::warn("the drain of node {} (task {}) failed: {}", node, job->task.id(),
               done.error().message);
  for (;;) {
    StateBatch batch;
    TaskBook::Put(batch, job->task);
    Status written = co_await Write(std::move(batch));
    if (written || stopping_ || written.error().code == Code::kDenied) break;
    spdlog::error("the end of task {} cannot be stored: {}", job->task.id(),
                  written.error().message);
    (void)co_await SleepFor(kWriteAgainAfter);
  }
  if (!job->ended) parts_.tasks.Commit(job->task);
}

Task<Status> Drainer::Write(StateBatch batch) {
  auto write = [this, batch = std::move(batch)] { return parts_.store.Write(batch, parts_.fence); };
  Status written = co_await parts_.offload.Run(std::move(write));
  co_return written;
}

Task<void> Drainer::Stop() {
  stopping_ = true;
  for (const auto& [node, job] : running_) job->run->Stop();
  const Deadline deadline = Deadline::After(kStopPatience);
  while (!running_.empty()) {
    Notifier::Ticket ticket = ended_.Enlist(context_.get_executor());
    if (running_.empty()) break;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return;
  }
}

}  // namespace forebay
