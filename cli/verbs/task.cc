#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>

#include "cli/json.h"
#include "cli/preload_result.h"
#include "cli/task_view.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "cli/wait_for_task.h"

namespace forebay {
namespace {

class TaskVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Choice("ACTION", {"show", "cancel", "retry", "wait"},
                   "show it, cancel it, try it again, or wait for its end", action_);
    options.Argument("ID", "the task, as `forebay tasks` names it", id_);
  }

  Outcome Run(VerbContext& context) override {
    if (action_ == "show") return Show(context);
    if (action_ == "wait") return Follow(context);
    proto::ChangeTaskRequest request;
    request.set_id(id_);
    const Method method = action_ == "cancel" ? Method::kCancelTask : Method::kRetryTask;
    auto reply = Ask<proto::ChangeTaskReply>(context.session, method, request);
    if (!reply) return OrAmong(reply.error(), "tasks");
    if (action_ == "retry") return Follow(context);
    PrintCancelled(context.console, *reply);
    return Exit::kDone;
  }

 private:
  std::expected<proto::TaskState, Failure> Get(VerbContext& context, bool with_failures) const {
    proto::GetTaskRequest request;
    request.set_id(id_);
    request.set_with_failures(with_failures);
    return Ask<proto::TaskState>(context.session, Method::kGetTask, request);
  }

  Outcome Show(VerbContext& context) const {
    auto task = Get(context, true);
    if (!task) return OrAmong(task.error(), "tasks");
    if (!context.console.json()) {
      PrintTask(context.console, *task);
      return Exit::kDone;
    }
    boost::json::object document = NewDocument();
    boost::json::array failures;
    for (const proto::TaskFailure& failure : task->failures()) {
      boost::json::object one;
      PutBytes(one, "key", failure.key());
      PutBytes(one, "reason", failure.reason());
      failures.emplace_back(std::move(one));
    }
    boost::json::object shown = TaskJson(*task);
    shown["failures"] = std::move(failures);
    document["task"] = std::move(shown);
    PrintDocument(context.console, document);
    return Exit::kDone;
  }

  Outcome Follow(VerbContext& context) const {
    auto task = Get(context, false);
    if (!task) return OrAmong(task.error(), "tasks");
    if (task->kind() == "preload") return WaitForPreload(context, *task);
    boost::json::object detached = NewDocument();
    detached["task"] = TaskJson(*task);
    const TaskWait wait{.id = id_,
                        .subject = task->kind() + " of '" + task->target() + "'",
                        .title = {.what = task->kind() + " of " + task->target()},
                        .detached = std::move(detached)};
    return WaitForTask(context, wait, [&](const proto::TaskState& done) {
      PrintDone(context.console, done);
      return Exit::kDone;
    });
  }

  static void PrintDone(const Console& console, const proto::TaskState& task) {
    if (!console.json()) {
      PrintTask(console, task);
      return;
    }
    boost::json::object document = NewDocument();
    document["task"] = TaskJson(task);
    PrintDocument(console, document);
  }

  void PrintCancelled(const Console& console, const proto::ChangeTaskReply& reply) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["already"] = !reply.changed();
      document["task"] = TaskJson(reply.task());
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("task {} ({} of {}) {}\n", id_, reply.task().kind(),
                                 Escaped(reply.task().target()),
                                 reply.changed() ? "is cancelled" : "was cancelled already")
                  << std::flush;
    }
  }

  std::string action_;
  std::string id_;
};

}  // namespace

std::unique_ptr<Verb> MakeTask() { return std::make_unique<TaskVerb>(); }

}  // namespace forebay
