#include "coordinator/background_fills.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/preload_records.h"

namespace forebay {
namespace {

/// Each holds a plan and a window of pieces, beside those of preloads; the others wait.
constexpr std::ptrdiff_t kMaxRunning = 4;
constexpr std::chrono::minutes kAgainAfter{1};

bool IsRunning(const proto::TaskState& task) {
  return task.state() == static_cast<std::uint32_t>(TaskPhase::kRunning);
}

}  // namespace

FillChance ChanceOf(const std::vector<proto::TaskState>& fills, const JobKey& key,
                    std::uint64_t generation) {
  FillChance chance = FillChance::kMayBegin;
  for (const proto::TaskState& task : fills) {
    if (UuidFromBytes(task.link_id()) != key.link) continue;
    const bool for_job = std::ranges::find(task.jobs(), key.job) != task.jobs().end();
    if (!for_job && IsRunning(task)) chance = FillChance::kMayJoin;
    if (!for_job) continue;
    const bool cancelled = task.state() == static_cast<std::uint32_t>(TaskPhase::kCancelled);
    const bool over = !task.job_left() && task.generation() == generation;
    if (IsRunning(task) || cancelled || over) return FillChance::kDecided;
  }
  return chance;
}

std::optional<std::uint64_t> BackgroundFills::GenerationOf(const Uuid& link) const {
  const std::optional<Link> found = parts_.links.FindById(link);
  if (!found || !found->generation || !found->spec.background_fill) return std::nullopt;
  return found->generation->generation();
}

bool BackgroundFills::IsOfInterest(const JobKey& key, TimePoint now) const {
  if (!parts_.enabled || due_.contains(key) || due_.size() >= kMaxJobsShown) return false;
  const auto waits = not_before_.find(key);
  if (waits != not_before_.end() && now < waits->second) return false;
  const std::optional<std::uint64_t> generation = GenerationOf(key.link);
  if (!generation) return false;
  const auto complete = complete_.find(key);
  if (complete != complete_.end() && complete->second == *generation) return false;
  return ChanceOf(fills_, key, *generation) != FillChance::kDecided;
}

void BackgroundFills::Report(const proto::ReportJobsRequest& request,
                             proto::ReportJobsReply& reply) {
  const TimePoint now = Clock::now();
  for (int i = 0; i < request.jobs_size() && i < reply.jobs_size(); ++i) {
    const proto::MountJob& row = request.jobs(i);
    JobKey key{.job = row.job(), .link = UuidFromBytes(row.link())};
    if (!IsOfInterest(key, now)) continue;
    const bool enough = reads_.Add(key, row, now);
    reply.mutable_jobs(i)->set_count_reads(!enough);
    if (!enough) continue;
    reads_.Forget(key);
    due_.insert(std::move(key));
    due_changed_.NotifyAll();
  }
}

void BackgroundFills::ReadTasks() {
  fills_ = parts_.tasks.All();
  std::erase_if(fills_, [](const proto::TaskState& task) { return task.kind() != kFillKind; });
}

Task<void> BackgroundFills::Tick() {
  const TimePoint now = Clock::now();
  reads_.Tidy(now);
  std::erase_if(not_before_, [&](const auto& entry) { return entry.second <= now; });
  std::erase_if(complete_,
                [&](const auto& entry) { return GenerationOf(entry.first.link) != entry.second; });
  if (complete_.size() > kMaxJobsShown) complete_.clear();
  ReadTasks();
  EndUnread();
  const std::set<JobKey> due = due_;
  for (const JobKey& key : due) {
    if (std::ranges::count_if(fills_, IsRunning) >= kMaxRunning) break;
    co_await Begin(key);
    due_.erase(key);
    ReadTasks();
  }
}

Task<void> BackgroundFills::Begin(JobKey key) {
  const std::optional<std::uint64_t> generation = GenerationOf(key.link);
  if (!generation) co_return;
  const FillChance chance = ChanceOf(fills_, key, *generation);
  if (chance == FillChance::kDecided) co_return;
  if (chance == FillChance::kMayJoin) {
    parts_.preloader.JoinFill(key.link, key.job);
    co_return;
  }
  const Result<std::string> task = co_await parts_.preloader.StartFill(key.link, key.job);
  if (!task) {
    not_before_[key] = Clock::now() + kAgainAfter;
    spdlog::warn("the rest of a link that job {} reads cannot be filled: {}", key.job,
                 task.error().message);
  } else if (task->empty()) {
    complete_[key] = *generation;
  }
}

void BackgroundFills::EndUnread() {
  // After a restart all mounts have been heard within this time.
  const bool all_heard = Clock::now() - started_ >= JobBook::kMountSilent;
  for (const proto::TaskState& task : fills_) {
    if (!IsRunning(task)) continue;
    const Uuid link = UuidFromBytes(task.link_id());
    const bool allowed = parts_.enabled && GenerationOf(link).has_value();
    if (allowed && parts_.stats.IsRead(link).value_or(!all_heard)) continue;
    parts_.preloader.EndFill(task.id());
  }
}

}  // namespace forebay
