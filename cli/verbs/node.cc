#include <fmt/format.h>

#include <ostream>

#include "cli/json.h"
#include "cli/task_view.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "cli/wait_for_task.h"
#include "common/base/units.h"
#include "common/model/membership.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

class NodeVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Choice("ACTION", {"drain", "undrain", "remove", "fence"},
                   "drain: copy what it holds to the others, then it may be stopped; undrain: end "
                   "a drain, lift a fence, let a removed node in again; remove: out at once, until "
                   "its next start; fence: out at once, until undrain",
                   action_);
    options.Argument("ID", "the node, as `forebay nodes` names it", id_);
  }

  Outcome Run(VerbContext& context) override {
    proto::ChangeNodeRequest request;
    request.set_node(id_);
    request.set_change(static_cast<std::uint32_t>(Change()));
    auto reply = Ask<proto::ChangeNodeReply>(context.session, Method::kChangeNode, request);
    if (!reply) return OrAmong(reply.error(), "nodes");
    if (action_ == "drain") return Follow(context, *reply);
    Print(context.console, *reply);
    return Exit::kDone;
  }

 private:
  NodeChange Change() const {
    if (action_ == "drain") return NodeChange::kDrain;
    if (action_ == "undrain") return NodeChange::kUndrain;
    return action_ == "fence" ? NodeChange::kFence : NodeChange::kRemove;
  }

  std::string Text(bool changed) const {
    if (action_ == "undrain") {
      return changed ? "is taken back: it serves its share again as soon as it is heard"
                     : "is neither draining nor kept out: nothing was changed; where it is out, it "
                       "joins by itself as soon as forebay-node runs on it";
    }
    if (!changed) return "was out already: nothing was changed";
    return action_ == "fence"
               ? "is fenced: it is out of the cluster until `forebay node undrain`"
               : "is removed: the others serve its share; its next start brings it back";
  }

  void Print(const Console& console, const proto::ChangeNodeReply& reply) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["node"] = ValidUtf8(id_);
      document["action"] = action_;
      document["changed"] = reply.changed();
      document["ring_epoch"] = reply.ring_epoch();
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("node {} {}\n", Escaped(id_), Text(reply.changed())) << std::flush;
    }
  }

  Outcome Follow(VerbContext& context, const proto::ChangeNodeReply& reply) const {
    if (!reply.changed() && !context.console.json()) {
      context.console.err << fmt::format("node {} has a drain already: joined task {}\n",
                                         Escaped(id_), reply.task_id())
                          << std::flush;
    }
    boost::json::object detached = NewDocument();
    detached["task"] = reply.task_id();
    detached["node"] = ValidUtf8(id_);
    const TaskWait wait{
        .id = reply.task_id(),
        .subject = "drain of node " + id_,
        .title = {.what = "draining " + id_, .moves_bytes = true},
        .detached = std::move(detached),
        .after_failure = fmt::format("the node still serves what it holds: `forebay node drain "
                                     "{0}` tries again, `forebay node undrain {0}` takes it back",
                                     id_)};
    const Console& console = context.console;
    return WaitForTask(context, wait,
                       [&](const proto::TaskState& done) { return PrintDrained(console, done); });
  }

  /// Exit 3 when something that it held is nowhere else.
  static Outcome PrintDrained(const Console& console, const proto::TaskState& task) {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["task"] = TaskJson(task);
      PrintDocument(console, document);
    } else {
      console.out << fmt::format(
          "node {} is drained: {} with {} are at other nodes; its machine may be stopped\n",
          Escaped(task.target()), Counted(task.done(), "block"), HumanBytes(task.bytes()));
      if (task.not_kept() > 0) {
        console.out << fmt::format(
            "the others have no room for {} blocks with {}: they are fetched again when somebody "
            "reads them\n",
            HumanCount(task.not_kept()), HumanBytes(task.not_kept_bytes()));
      }
      console.out << std::flush;
    }
    return task.not_kept() > 0 ? Exit::kPartly : Exit::kDone;
  }

  std::string action_;
  std::string id_;
};

}  // namespace

std::unique_ptr<Verb> MakeNode() { return std::make_unique<NodeVerb>(); }

}  // namespace forebay
