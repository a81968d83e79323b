#include "coordinator/task_book.h"

#include <algorithm>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/model/object_version.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kTaskPrefix = "task/";
constexpr std::size_t kEndedTasksKept = 100;

std::string TaskKey(const std::string& id) { return kTaskPrefix + id; }

}  // namespace

Status TaskBook::Load(StateStore& store) {
  auto rows = store.Scan(kTaskPrefix);
  if (!rows) return Fail(rows.error());
  std::scoped_lock lock(mutex_);
  for (const auto& [key, value] : *rows) {
    proto::TaskState task;
    Status decoded = DecodeRecord(value, task);
    if (!decoded) return Fail(decoded.error().Within("reading " + key));
    tasks_[task.id()] = std::move(task);
  }
  return {};
}

proto::TaskState TaskBook::Begin(std::string kind, std::string target) {
  proto::TaskState task;
  task.set_id("t-" + Uuid::Random().ToString().substr(0, 8));
  task.set_kind(std::move(kind));
  task.set_target(std::move(target));
  task.set_state(static_cast<std::uint32_t>(TaskPhase::kRunning));
  task.set_started_unix_s(UnixSeconds());
  return task;
}

proto::TaskState TaskBook::Ended(proto::TaskState task, const std::string& error) {
  const TaskPhase phase = error.empty() ? TaskPhase::kDone : TaskPhase::kFailed;
  task.set_state(static_cast<std::uint32_t>(phase));
  task.set_error(error);
  task.set_ended_unix_s(UnixSeconds());
  return task;
}

void TaskBook::Put(StateBatch& batch, const proto::TaskState& task) {
  batch.Put(TaskKey(task.id()), task.SerializeAsString());
}

void TaskBook::Commit(const proto::TaskState& task) {
  std::scoped_lock lock(mutex_);
  tasks_[task.id()] = task;
  for (;;) {
    auto oldest = tasks_.end();
    std::size_t ended = 0;
    for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
      if (it->second.ended_unix_s() == 0) continue;
      ++ended;
      const bool older =
          oldest == tasks_.end() || it->second.ended_unix_s() < oldest->second.ended_unix_s();
      if (older) oldest = it;
    }
    if (ended <= kEndedTasksKept) return;
    expired_keys_.push_back(TaskKey(oldest->first));
    tasks_.erase(oldest);
  }
}

std::optional<proto::TaskState> TaskBook::Find(const std::string& id) const {
  std::scoped_lock lock(mutex_);
  const auto task = tasks_.find(id);
  if (task == tasks_.end()) return std::nullopt;
  return task->second;
}

void TaskBook::Progress(const std::string& id, std::uint64_t done, std::uint64_t bytes) {
  std::scoped_lock lock(mutex_);
  const auto task = tasks_.find(id);
  if (task == tasks_.end()) return;
  task->second.set_done(done);
  task->second.set_bytes(bytes);
}

std::vector<proto::TaskState> TaskBook::FailedSince(std::int64_t since_unix_s) const {
  std::scoped_lock lock(mutex_);
  std::vector<proto::TaskState> failed;
  for (const auto& [id, task] : tasks_) {
    const bool fits = task.state() == static_cast<std::uint32_t>(TaskPhase::kFailed) &&
                      task.ended_unix_s() >= since_unix_s;
    if (fits) failed.push_back(task);
  }
  std::ranges::sort(failed, {}, [](const proto::TaskState& task) { return task.ended_unix_s(); });
  return failed;
}

std::vector<std::string> TaskBook::TakeExpiredKeys() {
  std::scoped_lock lock(mutex_);
  return std::exchange(expired_keys_, {});
}

}  // namespace forebay
