#include "coordinator/task_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/preload_records.h"

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

Task<Result<RpcReply>> TaskService::GetTask(RpcCall call) {
  proto::GetTaskRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::TaskState> task = parts_.tasks.Get(request.id());
  if (!task) co_return Fail(task.error());
  if (request.with_failures()) {
    *task->mutable_failures() = parts_.tasks.Failures(request.id()).failures();
  }
  co_return ReplyWith(*task);
}

Task<Result<RpcReply>> TaskService::ListTasks(RpcCall call) {
  proto::ListTasksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::ListTasksReply reply;
  const std::vector<proto::TaskState> all = parts_.tasks.All();
  for (std::size_t i = all.size() - std::min(all.size(), kMostListed); i < all.size(); ++i) {
    *reply.add_tasks() = all[i];
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
  Result<proto::TaskState> task = parts_.tasks.Get(request.id());
  if (!task) co_return Fail(task.error());
  proto::ChangeTaskReply reply;
  if (Is(*task, TaskPhase::kRunning)) {
    Status ended = co_await EndTask(*task);
    if (!ended) co_return Fail(ended.error());
    task = parts_.tasks.Get(request.id());
    if (!task) co_return Fail(task.error());
    reply.set_changed(true);
  }
  if (!Is(*task, TaskPhase::kCancelled)) {
    co_return Fail(Code::kInvalid, fmt::format("task {} {}: there is nothing to cancel", task->id(),
                                               PhaseName(*task)));
  }
  *reply.mutable_task() = *task;
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> TaskService::RetryTask(RpcCall call) {
  proto::ChangeTaskRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::TaskState> task = parts_.tasks.Get(request.id());
  if (!task) co_return Fail(task.error());
  if (!Is(*task, TaskPhase::kFailed)) {
    co_return Fail(Code::kInvalid,
                   fmt::format("task {} {}: only one that failed can be tried again", task->id(),
                               PhaseName(*task)));
  }
  if (task->kind() == kDrainKind) {
    co_return Fail(Code::kInvalid, fmt::format("task {0} was a drain: run `forebay node drain {1}` "
                                               "again",
                                               task->id(), task->target()));
  }
  if (task->kind() != kPreloadKind && task->kind() != kFillKind) {
    co_return Fail(Code::kInvalid, fmt::format("task {} was a {}: run `forebay {}` again",
                                               task->id(), task->kind(), task->kind()));
  }
  Result<proto::TaskState> again = co_await parts_.preloader.Retry(request.id());
  if (!again) co_return Fail(again.error());
  proto::ChangeTaskReply reply;
  *reply.mutable_task() = *again;
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
  Result<proto::PreloadReply> reply =
      co_await parts_.preloader.Start(std::move(request), call.deadline);
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

}  // namespace forebay
