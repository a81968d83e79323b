#include "coordinator/task_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coordinator/task_book.h"

namespace forebay {
namespace {

constexpr char kBetweenIds = '+';

bool Is(const proto::TaskState& task, TaskPhase phase) {
  return task.state() == static_cast<std::uint32_t>(phase);
}

TaskPhase PhaseOf(const std::vector<proto::TaskState>& tasks) {
  for (const TaskPhase phase : {TaskPhase::kRunning, TaskPhase::kFailed, TaskPhase::kCancelled}) {
    if (std::ranges::any_of(tasks, [&](const auto& task) { return Is(task, phase); })) return phase;
  }
  return TaskPhase::kDone;
}

void AddCounts(proto::TaskState& sum, const proto::TaskState& task) {
  if (sum.waiting().empty()) sum.set_waiting(task.waiting());
  sum.set_done(sum.done() + task.done());
  sum.set_failed(sum.failed() + task.failed());
  sum.set_bytes(sum.bytes() + task.bytes());
  sum.set_total_bytes(sum.total_bytes() + task.total_bytes());
  sum.set_not_kept(sum.not_kept() + task.not_kept());
  sum.set_not_kept_bytes(sum.not_kept_bytes() + task.not_kept_bytes());
  sum.set_quota_bound(sum.quota_bound() || task.quota_bound());
  sum.set_failed_bytes(sum.failed_bytes() + task.failed_bytes());
  sum.set_fetched_blocks(sum.fetched_blocks() + task.fetched_blocks());
  sum.set_fetched_bytes(sum.fetched_bytes() + task.fetched_bytes());
  sum.set_bytes_per_second(sum.bytes_per_second() + task.bytes_per_second());
  sum.set_hidden_keys(sum.hidden_keys() + task.hidden_keys());
  sum.set_added(sum.added() + task.added());
  sum.set_removed(sum.removed() + task.removed());
  sum.set_changed(sum.changed() + task.changed());
  if (!task.has_verification()) return;
  proto::TaskVerification& all = *sum.mutable_verification();
  const proto::TaskVerification& one = task.verification();
  all.set_verified(all.verified() + one.verified());
  all.set_without_checksum(all.without_checksum() + one.without_checksum());
  all.set_mismatched(all.mismatched() + one.mismatched());
  all.set_not_cached(all.not_cached() + one.not_cached());
}

void AddFailures(proto::TaskState& sum, const proto::TaskState& task) {
  for (const proto::TaskFailure& failure : task.failures()) {
    if (sum.failures_size() == TaskBook::kFailuresKept) return;
    *sum.add_failures() = failure;
  }
}

}  // namespace

std::string JoinTaskIds(const std::vector<std::string>& ids) {
  std::string all;
  for (const std::string& id : ids) {
    if (id.empty()) continue;
    if (!all.empty()) all += kBetweenIds;
    all += id;
  }
  return all;
}

std::vector<std::string> SplitTaskIds(std::string_view id) {
  std::vector<std::string> ids;
  for (;;) {
    const std::size_t end = id.find(kBetweenIds);
    ids.emplace_back(id.substr(0, end));
    if (end == std::string_view::npos) return ids;
    id.remove_prefix(end + 1);
  }
}

proto::TaskState SumOfTasks(const std::vector<proto::TaskState>& tasks, const std::string& set) {
  const proto::TaskState& first = tasks.front();
  proto::TaskState sum;
  std::vector<std::string> ids;
  for (const proto::TaskState& task : tasks) {
    ids.push_back(task.id());
    AddCounts(sum, task);
    AddFailures(sum, task);
  }
  sum.set_id(JoinTaskIds(ids));
  sum.set_kind(first.kind());
  sum.set_target(set.empty() ? fmt::format("{} and {} more", first.target(), tasks.size() - 1)
                             : set);
  sum.set_link(set);
  const TaskPhase phase = PhaseOf(tasks);
  sum.set_state(static_cast<std::uint32_t>(phase));
  // As long as one does not know how much it will be, nobody knows the sum.
  const bool all_known = std::ranges::none_of(tasks, [](const proto::TaskState& task) {
    return Is(task, TaskPhase::kRunning) && task.total() == 0;
  });
  std::uint64_t total = 0;
  for (const proto::TaskState& task : tasks) total += task.total();
  if (all_known) sum.set_total(total);
  const auto why = std::ranges::find_if(tasks, [&](const auto& task) { return Is(task, phase); });
  if (phase == TaskPhase::kFailed)
    sum.set_error(fmt::format("'{}': {}", why->target(), why->error()));
  if (phase == TaskPhase::kCancelled) sum.set_error(why->error());
  const auto begun = std::ranges::min_element(tasks, {}, &proto::TaskState::started_unix_ms);
  sum.set_started_unix_s(begun->started_unix_s());
  sum.set_started_unix_ms(begun->started_unix_ms());
  if (phase != TaskPhase::kRunning) {
    const auto last = std::ranges::max_element(tasks, {}, &proto::TaskState::ended_unix_s);
    sum.set_ended_unix_s(last->ended_unix_s());
  }
  return sum;
}

}  // namespace forebay
