#include <boost/json/array.hpp>

#include "cli/json.h"
#include "cli/task_view.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

class TasksVerb final : public Verb {
 public:
  void Declare(Options&) override {}

  Outcome Run(VerbContext& context) override {
    auto reply =
        Ask<proto::ListTasksReply>(context.session, Method::kListTasks, proto::ListTasksRequest());
    if (!reply) return std::unexpected(reply.error());
    if (context.console.json()) {
      boost::json::array tasks;
      for (const proto::TaskState& task : reply->tasks()) tasks.emplace_back(TaskJson(task));
      boost::json::object document = NewDocument();
      document["tasks"] = std::move(tasks);
      PrintDocument(context.console, document);
    } else {
      PrintTasks(context.console, *reply);
    }
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeTasks() { return std::make_unique<TasksVerb>(); }

}  // namespace forebay
