#include "coordinator/task_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/model/object_version.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kTaskPrefix = "task/";
constexpr const char* kFailuresPrefix = "task_failures/";

std::string TaskKey(const std::string& id) { return kTaskPrefix + id; }
std::string FailuresKey(const std::string& id) { return kFailuresPrefix + id; }

bool IsUneventful(const proto::TaskState& task) {
  return task.periodic() && task.state() == static_cast<std::uint32_t>(TaskPhase::kDone) &&
         task.added() + task.removed() + task.changed() == 0;
}

/// Tasks that ended which are kept and forgotten together.
bool AreAlike(const proto::TaskState& a, const proto::TaskState& b) {
  return a.kind() == b.kind() && IsUneventful(a) == IsUneventful(b);
}

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
  return LoadFailures(store);
}

Status TaskBook::LoadFailures(StateStore& store) {
  auto rows = store.Scan(kFailuresPrefix);
  if (!rows) return Fail(rows.error());
  for (const auto& [key, value] : *rows) {
    proto::TaskFailures failures;
    Status decoded = DecodeRecord(value, failures);
    if (!decoded) return Fail(decoded.error().Within("reading " + key));
    failures_[key.substr(std::string_view(kFailuresPrefix).size())] = std::move(failures);
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
  task.set_started_unix_ms(UnixMilliseconds());
  return task;
}

proto::TaskState TaskBook::Ended(proto::TaskState task, const std::string& error) {
  const TaskPhase phase = error.empty() ? TaskPhase::kDone : TaskPhase::kFailed;
  task.set_state(static_cast<std::uint32_t>(phase));
  task.set_error(error);
  task.clear_waiting();
  task.set_ended_unix_s(UnixSeconds());
  return task;
}

proto::TaskState TaskBook::Cancelled(proto::TaskState task, const std::string& reason) {
  task = Ended(std::move(task), reason);
  task.set_state(static_cast<std::uint32_t>(TaskPhase::kCancelled));
  return task;
}

void TaskBook::CountListed(proto::TaskState& task, const proto::GenerationInfo& listed) {
  task.set_done(listed.objects());
  task.set_bytes(listed.bytes());
  task.set_hidden_keys(listed.hidden_keys());
}

void TaskBook::Put(StateBatch& batch, const proto::TaskState& task) {
  batch.Put(TaskKey(task.id()), task.SerializeAsString());
}

void TaskBook::Commit(const proto::TaskState& task) {
  std::scoped_lock lock(mutex_);
  tasks_[task.id()] = task;
  if (task.ended_unix_s() != 0) ForgetOldest(task);
}

/// Of those that ended and are like this one.
void TaskBook::ForgetOldest(const proto::TaskState& like) {
  const std::size_t kept = IsUneventful(like) ? kUneventfulKept : kEndedKept;
  const auto age = [](const proto::TaskState& task) {
    return std::pair(task.ended_unix_s(), task.started_unix_ms());
  };
  for (;;) {
    auto oldest = tasks_.end();
    std::size_t ended = 0;
    for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
      if (it->second.ended_unix_s() == 0 || !AreAlike(it->second, like)) continue;
      ++ended;
      if (oldest == tasks_.end() || age(it->second) < age(oldest->second)) oldest = it;
    }
    if (ended <= kept) return;
    expired_keys_.push_back(TaskKey(oldest->first));
    if (failures_.erase(oldest->first) > 0) expired_keys_.push_back(FailuresKey(oldest->first));
    tasks_.erase(oldest);
  }
}

std::optional<proto::TaskState> TaskBook::Find(const std::string& id) const {
  std::scoped_lock lock(mutex_);
  const auto task = tasks_.find(id);
  if (task == tasks_.end()) return std::nullopt;
  return task->second;
}

Result<proto::TaskState> TaskBook::Get(const std::string& id) const {
  std::optional<proto::TaskState> task = Find(id);
  if (task) return std::move(*task);
  return Fail(Code::kNotFound,
              fmt::format("no task '{}': of those that ended, the latest {} of each kind are kept",
                          id, kEndedKept));
}

std::vector<proto::TaskState> TaskBook::All() const {
  std::scoped_lock lock(mutex_);
  std::vector<proto::TaskState> all;
  all.reserve(tasks_.size());
  for (const auto& [id, task] : tasks_) all.push_back(task);
  std::ranges::sort(all, {}, [](const proto::TaskState& task) {
    return std::pair(task.started_unix_ms(), task.id());
  });
  return all;
}

void TaskBook::Show(const proto::TaskState& task) {
  std::scoped_lock lock(mutex_);
  const auto known = tasks_.find(task.id());
  if (known != tasks_.end() && known->second.ended_unix_s() == 0) known->second = task;
}

void TaskBook::AddFailures(const std::string& id, const std::vector<proto::TaskFailure>& failures) {
  std::scoped_lock lock(mutex_);
  proto::TaskFailures& kept = failures_[id];
  for (const proto::TaskFailure& failure : failures) {
    if (kept.failures_size() >= kFailuresKept) return;
    *kept.add_failures() = failure;
  }
}

proto::TaskFailures TaskBook::Failures(const std::string& id) const {
  std::scoped_lock lock(mutex_);
  const auto failures = failures_.find(id);
  return failures == failures_.end() ? proto::TaskFailures() : failures->second;
}

void TaskBook::ClearFailures(const std::string& id) {
  std::scoped_lock lock(mutex_);
  failures_.erase(id);
}

void TaskBook::PutFailures(StateBatch& batch, const std::string& id) const {
  const proto::TaskFailures failures = Failures(id);
  if (failures.failures().empty()) {
    batch.Delete(FailuresKey(id));
  } else {
    batch.Put(FailuresKey(id), failures.SerializeAsString());
  }
}

bool TaskBook::ShowWaiting(const std::string& id, const std::string& why) {
  std::scoped_lock lock(mutex_);
  const auto task = tasks_.find(id);
  if (task == tasks_.end() || task->second.ended_unix_s() != 0) return false;
  const bool waited = !task->second.waiting().empty();
  task->second.set_waiting(why);
  return waited != !why.empty();
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
