#include "coordinator/task_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/preload_records.h"
#include "coordinator/set_sums.h"
#include "coordinator/target.h"
#include "coordinator/task_sum.h"

namespace forebay {
namespace {

bool Is(const proto::TaskState& task, TaskPhase phase) {
  return task.state() == static_cast<std::uint32_t>(phase);
}

std::string_view PhaseName(const proto::TaskState& task) {
  switch (static_cast<TaskPhase>(task.state())) {
    case TaskPhase::kRunning:
      return "runs";
    case TaskPhase::kDone:
      return "is done";
    case TaskPhase::kFailed:
      return "has failed";
    case TaskPhase::kCancelled:
      return "was cancelled";
  }
  return "is in an unknown state";
}

/// A reply has room for a megabyte; the tasks that run and the latest of the others.
constexpr std::size_t kMostListed = 1000;

/// Of a rate for `all` bytes, that for `of` of them; 0 = none, and none of it is.
std::uint64_t ShareOf(std::uint64_t rate, std::uint64_t of, std::uint64_t all) {
  if (rate == 0) return 0;
  const double share = all == 0 ? 0 : static_cast<double>(of) / static_cast<double>(all);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(rate) * share));
}

Error StillListed(const std::string& link) {
  return Error{Code::kUnavailable,
               fmt::format("'{}' is still being listed: try again when it is done", link)};
}

}  // namespace

std::vector<MethodEntry> TaskService::Methods() {
  std::vector<MethodEntry> methods;
  const auto add = [&](Method method, auto handler) {
    methods.push_back(
        {method, [this, handler](RpcCall call) { return (this->*handler)(std::move(call)); }});
  };
  add(Method::kGetTask, &TaskService::GetTask);
  add(Method::kListTasks, &TaskService::ListTasks);
  add(Method::kCancelTask, &TaskService::CancelTask);
  add(Method::kRetryTask, &TaskService::RetryTask);
  add(Method::kUploadNames, &TaskService::UploadNames);
  add(Method::kPreload, &TaskService::StartPreload);
  return methods;
}

/// The set that the task's target is a part of; "" = none, or it is gone.
std::string TaskService::SetOf(const proto::TaskState& task) const {
  const Result<Link> link = parts_.links.Find(task.target().substr(0, task.target().find('/')));
  return link ? link->spec.set : std::string();
}

/// What fills a link does not hear itself how long the nodes wait for S3.
void TaskService::ShowWaiting(proto::TaskState& task) const {
  const bool fills = task.kind() == kPreloadKind || task.kind() == kFillKind;
  if (!fills || !Is(task, TaskPhase::kRunning)) return;
  const Result<Link> link = parts_.links.Find(task.target().substr(0, task.target().find('/')));
  if (!link) return;
  const std::optional<proto::S3Wait> wait = parts_.stats.UnansweredOf(link->spec.origin);
  if (wait) task.set_waiting(wait->why());
}

Result<proto::TaskState> TaskService::Find(const std::string& id, bool with_failures) const {
  std::vector<proto::TaskState> tasks;
  for (const std::string& each : SplitTaskIds(id)) {
    Result<proto::TaskState> task = parts_.tasks.Get(each);
    if (!task) return Fail(task.error());
    ShowWaiting(*task);
    if (with_failures) *task->mutable_failures() = parts_.tasks.Failures(each).failures();
    tasks.push_back(std::move(*task));
  }
  if (tasks.size() == 1) return std::move(tasks.front());
  return SumOfTasks(tasks, SetOf(tasks.front()));
}

Task<Result<RpcReply>> TaskService::GetTask(RpcCall call) {
  proto::GetTaskRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::TaskState> task = Find(request.id(), request.with_failures());
  if (!task) co_return Fail(task.error());
  co_return ReplyWith(*task);
}

Task<Result<RpcReply>> TaskService::ListTasks(RpcCall call) {
  proto::ListTasksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::ListTasksReply reply;
  const std::vector<proto::TaskState> all = parts_.tasks.All();
  for (std::size_t i = all.size() - std::min(all.size(), kMostListed); i < all.size(); ++i) {
    proto::TaskState& task = *reply.add_tasks();
    task = all[i];
    ShowWaiting(task);
  }
  co_return ReplyWith(reply);
}

Task<Status> TaskService::EndTask(proto::TaskState task) {
  if (task.kind() == kPreloadKind || task.kind() == kFillKind) {
    Result<bool> ended = co_await parts_.preloader.Cancel(task.id());
    if (!ended) co_return Fail(ended.error());
    co_return Status();
  }
  if (task.kind() == kDrainKind) {
    Status drain = co_await parts_.drainer.Cancel(task.id());
    co_return drain;
  }
  Status ended = co_await parts_.linker.Cancel(task.id());
  co_return ended;
}

Task<Result<RpcReply>> TaskService::CancelTask(RpcCall call) {
  proto::ChangeTaskRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::TaskState> task = Find(request.id(), false);
  if (!task) co_return Fail(task.error());
  proto::ChangeTaskReply reply;
  for (const std::string& id : SplitTaskIds(request.id())) {
    const std::optional<proto::TaskState> one = parts_.tasks.Find(id);
    if (!one || !Is(*one, TaskPhase::kRunning)) continue;
    Status ended = co_await EndTask(*one);
    if (!ended) co_return Fail(ended.error());
    reply.set_changed(true);
  }
  task = Find(request.id(), false);
  if (!task) co_return Fail(task.error());
  if (!Is(*task, TaskPhase::kCancelled)) {
    co_return Fail(Code::kInvalid, fmt::format("task {} {}: there is nothing to cancel", task->id(),
                                               PhaseName(*task)));
  }
  *reply.mutable_task() = *task;
  co_return ReplyWith(reply);
}

Task<Status> TaskService::RetryOne(proto::TaskState task) {
  if (task.kind() == kDrainKind) {
    co_return Fail(Code::kInvalid, fmt::format("task {0} was a drain: run `forebay node drain {1}` "
                                               "again",
                                               task.id(), task.target()));
  }
  if (task.kind() != kPreloadKind && task.kind() != kFillKind) {
    co_return Fail(Code::kInvalid, fmt::format("task {} was a {}: run `forebay {}` again",
                                               task.id(), task.kind(), task.kind()));
  }
  Result<proto::TaskState> again = co_await parts_.preloader.Retry(task.id());
  if (!again) co_return Fail(again.error());
  co_return Status();
}

Task<Result<RpcReply>> TaskService::RetryTask(RpcCall call) {
  proto::ChangeTaskRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::TaskState> task = Find(request.id(), false);
  if (!task) co_return Fail(task.error());
  if (!Is(*task, TaskPhase::kFailed)) {
    co_return Fail(Code::kInvalid,
                   fmt::format("task {} {}: only one that failed can be tried again", task->id(),
                               PhaseName(*task)));
  }
  for (const std::string& id : SplitTaskIds(request.id())) {
    const std::optional<proto::TaskState> one = parts_.tasks.Find(id);
    if (!one || !Is(*one, TaskPhase::kFailed)) continue;
    Status again = co_await RetryOne(*one);
    if (!again) co_return Fail(again.error());
  }
  task = Find(request.id(), false);
  if (!task) co_return Fail(task.error());
  proto::ChangeTaskReply reply;
  *reply.mutable_task() = *task;
  reply.set_changed(true);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> TaskService::UploadNames(RpcCall call) {
  auto request = std::make_shared<proto::UploadNamesRequest>();
  Status parsed = ParseMessage(call.message, *request);
  if (!parsed) co_return Fail(parsed.error());
  auto append = [this, request] {
    return parts_.uploads.Append(request->upload(), request->offset(), request->data());
  };
  Result<NameUploads::Upload> upload = co_await parts_.offload.Run(std::move(append));
  if (!upload) co_return Fail(upload.error());
  proto::UploadNamesReply reply;
  reply.set_upload(upload->id);
  reply.set_size(upload->size);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> TaskService::StartPreload(RpcCall call) {
  proto::PreloadRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::vector<LinkSpec> parts = PartsNamed(request.target().text(), parts_.links.Specs());
  if (!parts.empty()) {
    Result<proto::PreloadReply> set = co_await PreloadParts(std::move(request), call.deadline);
    if (!set) co_return Fail(set.error());
    co_return ReplyWith(*set);
  }
  Result<proto::PreloadReply> reply =
      co_await parts_.preloader.Start(std::move(request), call.deadline);
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

/// A task for each part. They share the rate by what they have, so that they end together.
Task<Result<proto::PreloadReply>> TaskService::PreloadParts(proto::PreloadRequest request,
                                                            Deadline deadline) {
  if (!request.names_upload().empty() || !request.order_upload().empty()) {
    co_return Fail(Code::kInvalid,
                   fmt::format("'{}' is a set, and a list names the files of one part: preload "
                               "each part with its own list",
                               request.target().text()));
  }
  std::vector<Link> parts;
  std::uint64_t bytes = 0;
  for (const LinkSpec& spec : PartsNamed(request.target().text(), parts_.links.Specs())) {
    const std::optional<Link> link = parts_.links.FindById(spec.id);
    if (!link || !link->generation) co_return Fail(StillListed(spec.name));
    bytes += link->generation->bytes();
    parts.push_back(*link);
  }
  proto::PreloadReply sum;
  std::vector<std::string> tasks;
  std::vector<std::string> begun;
  for (const Link& part : parts) {
    // Nothing in it: there is nothing to preload, and the others may have something.
    if (part.generation->objects() == 0) continue;
    proto::PreloadRequest one = request;
    one.mutable_target()->set_text(part.spec.name);
    one.set_bytes_per_second(ShareOf(request.bytes_per_second(), part.generation->bytes(), bytes));
    Result<proto::PreloadReply> reply = co_await parts_.preloader.Start(std::move(one), deadline);
    if (!reply) {
      // All or none: what has just begun ends.
      for (const std::string& id : begun) (void)co_await parts_.preloader.Cancel(id);
      co_return Fail(reply.error());
    }
    tasks.push_back(reply->task_id());
    if (!reply->joined() && !reply->task_id().empty()) begun.push_back(reply->task_id());
    AddTo(sum, *reply);
  }
  sum.set_link(parts.empty() ? std::string() : parts.front().spec.set);
  sum.set_task_id(JoinTaskIds(tasks));
  if (tasks.empty()) {
    co_return Fail(Code::kNotFound, fmt::format("there is nothing to preload: no object in '{}'",
                                                request.target().text()));
  }
  co_return sum;
}

}  // namespace forebay
