#pragma once

#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/wire/server.h"
#include "coordinator/drainer.h"
#include "coordinator/link_registry.h"
#include "coordinator/linker.h"
#include "coordinator/name_uploads.h"
#include "coordinator/preloader.h"
#include "coordinator/task_book.h"

namespace forebay {

/// What the CLI asks about tasks, and the start of preloads.
class TaskService {
 public:
  struct Parts {
    TaskBook& tasks;
    const LinkRegistry& links;
    Linker& linker;
    Preloader& preloader;
    Drainer& drainer;
    const ClusterStats& stats;
    NameUploads& uploads;
    Offload& offload;
  };
  explicit TaskService(Parts parts) : parts_(parts) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> GetTask(RpcCall call);
  Task<Result<RpcReply>> ListTasks(RpcCall call);
  Task<Result<RpcReply>> CancelTask(RpcCall call);
  Task<Result<RpcReply>> RetryTask(RpcCall call);
  Task<Result<RpcReply>> UploadNames(RpcCall call);
  Task<Result<RpcReply>> StartPreload(RpcCall call);
  Task<Result<proto::PreloadReply>> PreloadParts(proto::PreloadRequest request, Deadline deadline);

  /// One task, or the sum of several (task_sum.h).
  Result<proto::TaskState> Find(const std::string& id, bool with_failures) const;
  std::string SetOf(const proto::TaskState& task) const;
  void ShowWaiting(proto::TaskState& task) const;
  Task<Status> EndTask(proto::TaskState task);
  Task<Status> RetryOne(proto::TaskState task);

  Parts parts_;
};

}  // namespace forebay
