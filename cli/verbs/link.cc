#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/link_request.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "cli/wait_for_task.h"
#include "common/base/units.h"
#include "common/model/link_set.h"

namespace forebay {
namespace {

class LinkVerb final : public Verb {
 public:
  void Declare(Options& options) override { wish_.Declare(options); }

  Outcome Run(VerbContext& context) override {
    Result<proto::LinkRequest> request = wish_.Request();
    if (!request) return std::unexpected(Failure(request.error(), "", Exit::kUsage));
    auto reply = Ask<proto::LinkReply>(context.session, Method::kLink, *request);
    if (!reply) return std::unexpected(Refused(context.session, *request, reply.error()));
    name_ = reply->name();
    task_id_ = reply->task_id();
    parts_ = request->parts();
    if (task_id_.empty()) {
      PrintAlready(context.console);
      return Exit::kDone;
    }
    const TaskWait wait{.id = task_id_,
                        .subject = Called(),
                        .title = {.what = "listing " + name_},
                        .detached = Document("listing")};
    return WaitForTask(context, wait, [&](const proto::TaskState& task) {
      PrintListed(context.console, task);
      return Exit::kDone;
    });
  }

 private:
  /// Other options for a name that is taken are a usage error; S3's refusals are failures. Both
  /// come as kInvalid, and the name tells them apart.
  static Failure Refused(Session& session, const proto::LinkRequest& request, Failure failure) {
    if (failure.error.code != Code::kInvalid || failure.exit) return failure;
    proto::GetLinksRequest by_name;
    by_name.set_name(request.name());
    auto links = Ask<proto::GetLinksReply>(session, Method::kGetLinks, by_name);
    const bool taken =
        links && std::ranges::any_of(links->links(), [&](const auto& link) {
          return link.spec().name() == request.name() || link.spec().set() == request.name();
        });
    failure.exit = taken ? Exit::kUsage : Exit::kFailed;
    return failure;
  }

  void PrintListed(const Console& console, const proto::TaskState& task) const {
    const std::uint64_t objects = std::max(task.total(), task.done());
    if (console.json()) {
      boost::json::object document = Document("ready");
      document["already"] = false;
      document["objects"] = objects;
      document["bytes"] = task.bytes();
      document["hidden_keys"] = task.hidden_keys();
      document["skipped"] = task.failed();
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("{}: {}, {}; mount it with `forebay-mount {} DIR`\n", Called(),
                                 Counted(objects, "object"), HumanBytes(task.bytes()), name_)
                  << std::flush;
      if (task.hidden_keys() > 0) {
        console.out << fmt::format("{} cannot be shown as {}: `forebay ls {} --hidden` says why\n",
                                   Counted(task.hidden_keys(), "key"),
                                   task.hidden_keys() == 1 ? "a file" : "files", name_)
                    << std::flush;
      }
      if (task.failed() > 0) {
        console.out << fmt::format(
                           "{} of the manifest {} left out: `forebay task show {}` says which\n",
                           Counted(task.failed(), "line"), task.failed() == 1 ? "is" : "are",
                           task_id_)
                    << std::flush;
      }
    }
  }

  void PrintAlready(const Console& console) const {
    if (console.json()) {
      boost::json::object document = Document("ready");
      document["already"] = true;
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("{} of {} is there already: nothing to do\n", Called(),
                                 wish_.is_set() ? fmt::format("{} parts", parts_.size())
                                                : Escaped(wish_.source()))
                  << std::flush;
    }
  }

  boost::json::object Document(const char* state) const {
    boost::json::object document = NewDocument();
    document["name"] = name_;
    if (wish_.is_set()) {
      document["source"] = nullptr;
    } else {
      PutBytes(document, "source", wish_.source());
    }
    boost::json::array parts;
    for (const proto::LinkPart& part : parts_) {
      boost::json::object row;
      row["part"] = part.name();
      row["link"] = LinkOfPart(name_, part.name());
      PutBytes(row, "source", "s3://" + part.bucket() + "/" + part.prefix());
      parts.emplace_back(std::move(row));
    }
    document["parts"] = std::move(parts);
    document["state"] = state;
    document["task"] = task_id_.empty() ? boost::json::value() : boost::json::value(task_id_);
    return document;
  }

  std::string Called() const {
    return fmt::format("{} '{}'", wish_.is_set() ? "set" : "link", name_);
  }

  LinkWish wish_;
  google::protobuf::RepeatedPtrField<proto::LinkPart> parts_;
  std::string name_;
  std::string task_id_;
};

}  // namespace

std::unique_ptr<Verb> MakeLink() { return std::make_unique<LinkVerb>(); }

}  // namespace forebay
