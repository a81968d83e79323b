#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "cli/wait_for_task.h"
#include "common/base/units.h"

namespace forebay {
namespace {

class RefreshVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "the link, folder or file to look up in S3 again", text_);
  }

  Outcome Run(VerbContext& context) override {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::RefreshRequest request;
    request.mutable_target()->set_text(*target);
    for (;;) {
      auto reply = Ask<proto::RefreshReply>(context.session, Method::kRefresh, request);
      if (!reply) return std::unexpected(reply.error());
      bool again = false;
      Outcome outcome = WaitForTask(context, WaitOf(*reply, *target), [&](const auto& task) {
        // Another listing of the link ran: it may have looked before the change that is asked for.
        again = !reply->started();
        if (!again) Print(context, *target, *reply, task);
        return Exit::kDone;
      });
      if (!again) return outcome;
    }
  }

 private:
  static boost::json::object Document(const std::string& target, const proto::RefreshReply& reply,
                                      const char* state) {
    boost::json::object document = NewDocument();
    PutBytes(document, "target", target);
    document["link"] = reply.link();
    document["state"] = state;
    document["task"] = reply.task_id();
    return document;
  }

  static TaskWait WaitOf(const proto::RefreshReply& reply, const std::string& target) {
    return {.id = reply.task_id(),
            .subject = "link '" + reply.link() + "'",
            .title = {.what = "listing " + Escaped(target)},
            .detached = Document(target, reply, "listing")};
  }

  /// A listing that found nothing new of a target that is not there: it is probably misspelt.
  static bool IsNothing(VerbContext& context, const std::string& target,
                        const proto::TaskState& task) {
    if (task.added() + task.removed() + task.changed() > 0) return false;
    proto::ListTargetRequest look;
    look.mutable_target()->set_text(target);
    look.set_limit(1);
    const auto found = Ask<proto::ListTargetReply>(context.session, Method::kListTarget, look);
    return !found && found.error().error.code == Code::kNotFound;
  }

  static void Print(VerbContext& context, const std::string& target,
                    const proto::RefreshReply& reply, const proto::TaskState& task) {
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = Document(target, reply, "done");
      document["added"] = task.added();
      document["removed"] = task.removed();
      document["changed"] = task.changed();
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("{}: +{} -{} ~{} files\n", Escaped(target), HumanCount(task.added()),
                               HumanCount(task.removed()), HumanCount(task.changed()))
                << std::flush;
    if (IsNothing(context, target, task)) {
      console.err << fmt::format("{}: there is nothing of that name, neither before nor now\n",
                                 Escaped(target))
                  << std::flush;
    }
  }

  std::string text_;
};

}  // namespace

std::unique_ptr<Verb> MakeRefresh() { return std::make_unique<RefreshVerb>(); }

}  // namespace forebay
