#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/link_request.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// Short at first, so that a small link does not cost a noticeable wait.
constexpr std::chrono::milliseconds kFirstPoll{50};
constexpr std::chrono::milliseconds kLongestPoll{500};
/// A listing outlives its coordinator's restart; after this long without one the wait ends.
constexpr std::chrono::seconds kCoordinatorAway{60};

constexpr std::uint32_t kRunning = 0;  // TaskState.state
constexpr std::uint32_t kDone = 1;

class LinkVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    wish_.Declare(options);
    options.Switch("--wait", "wait until it is listed (the default)", wait_);
    options.Switch("--detach", "do not wait; print the task's id", detach_);
  }

  Outcome Run(VerbContext& context) override {
    if (wait_ && detach_) return UsageError("--wait and --detach exclude each other");
    Result<proto::LinkRequest> request = wish_.Request();
    if (!request) return std::unexpected(Failure(request.error(), "", Exit::kUsage));
    auto reply = Ask<proto::LinkReply>(context.session, Method::kLink, *request);
    if (!reply) return std::unexpected(Refused(context.session, *request, reply.error()));
    name_ = reply->name();
    task_id_ = reply->task_id();
    if (task_id_.empty()) {
      PrintAlready(context.console);
      return Exit::kDone;
    }
    if (detach_) {
      PrintDetached(context.console);
      return Exit::kDone;
    }
    return Wait(context);
  }

 private:
  /// Other options for a name that is taken are a usage error; S3's refusals are failures. Both
  /// come as kInvalid, and the name tells them apart.
  static Failure Refused(Session& session, const proto::LinkRequest& request, Failure failure) {
    if (failure.error.code != Code::kInvalid || failure.exit) return failure;
    proto::GetLinksRequest by_name;
    by_name.set_name(request.name());
    auto links = Ask<proto::GetLinksReply>(session, Method::kGetLinks, by_name);
    const bool taken = links && std::ranges::any_of(links->links(), [&](const auto& link) {
                         return link.spec().name() == request.name();
                       });
    failure.exit = taken ? Exit::kUsage : Exit::kFailed;
    return failure;
  }

  Outcome Wait(VerbContext& context) {
    Session& session = context.session;
    session.CatchInterrupts();
    const TimePoint begin = session.Now();
    Progress progress(context.console, "listing " + name_, begin);
    TimePoint answered = begin;
    std::chrono::milliseconds pause = kFirstPoll;
    proto::GetTaskRequest request;
    request.set_id(task_id_);
    for (;;) {
      auto task = Ask<proto::TaskState>(session, Method::kGetTask, request);
      if (session.interrupted() || session.TimedOut()) break;
      if (task && task->state() != kRunning) {
        progress.Clear();
        return Ended(context.console, *task);
      }
      const TimePoint now = session.Now();
      if (task) {
        answered = now;
        progress.Show({.task = task_id_,
                       .done = task->done(),
                       .total = task->total(),
                       .failed = task->failed(),
                       .bytes = task->bytes()},
                      now);
      } else if (task.error().error.code != Code::kUnavailable ||
                 now - answered >= kCoordinatorAway) {
        progress.Clear();
        return std::unexpected(task.error());
      }
      if (!session.Pause(pause) || session.TimedOut()) break;
      pause = std::min(2 * pause, kLongestPoll);
    }
    progress.Clear();
    return Left(context);
  }

  /// The wait ended before the listing: Ctrl-C or --timeout.
  Outcome Left(VerbContext& context) const {
    const std::string how =
        fmt::format("the same command waits for it again, `forebay unlink {}` ends it", name_);
    if (!context.session.interrupted()) {
      return std::unexpected(Failure(
          Error{Code::kTimeout, fmt::format("link '{}' is not listed within --timeout, and its "
                                            "listing goes on (task {})",
                                            name_, task_id_)},
          how, Exit::kTimeout));
    }
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object detached;
      detached["task"] = task_id_;
      detached["hint"] = how;
      boost::json::object line;
      line["detached"] = std::move(detached);
      console.err << JsonText(line) << '\n' << std::flush;
    } else {
      console.err << fmt::format("the listing of '{}' goes on (task {}): {}\n", name_, task_id_,
                                 how)
                  << std::flush;
    }
    return Exit::kInterrupted;
  }

  Outcome Ended(const Console& console, const proto::TaskState& task) const {
    if (task.state() != kDone) {
      return std::unexpected(
          Failure(Error{Code::kUnavailable, fmt::format("link '{}': {}", name_, task.error())},
                  "correct the cause and run the command again", Exit::kFailed));
    }
    const std::uint64_t objects = std::max(task.total(), task.done());
    if (console.json()) {
      boost::json::object document = Document("ready");
      document["already"] = false;
      document["objects"] = objects;
      document["bytes"] = task.bytes();
      PrintDocument(console, document);
    } else {
      console.out << fmt::format(
                         "link '{}': {} objects, {}; mount it with `forebay-mount {} DIR`\n", name_,
                         HumanCount(objects), HumanBytes(task.bytes()), name_)
                  << std::flush;
    }
    return Exit::kDone;
  }

  void PrintAlready(const Console& console) const {
    if (console.json()) {
      boost::json::object document = Document("ready");
      document["already"] = true;
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("link '{}' of {} is there already: nothing to do\n", name_,
                                 Escaped(wish_.source()))
                  << std::flush;
    }
  }

  void PrintDetached(const Console& console) const {
    if (console.json()) {
      PrintDocument(console, Document("listing"));
    } else {
      console.out << task_id_ << '\n' << std::flush;
    }
  }

  boost::json::object Document(const char* state) const {
    boost::json::object document = NewDocument();
    document["name"] = name_;
    PutBytes(document, "source", wish_.source());
    document["state"] = state;
    document["task"] = task_id_.empty() ? boost::json::value() : boost::json::value(task_id_);
    return document;
  }

  LinkWish wish_;
  bool wait_ = false;
  bool detach_ = false;
  std::string name_;
  std::string task_id_;
};

}  // namespace

std::unique_ptr<Verb> MakeLink() { return std::make_unique<LinkVerb>(); }

}  // namespace forebay
