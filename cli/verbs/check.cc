#include <fmt/format.h>

#include <ostream>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

class CheckVerb final : public Verb {
 public:
  void Declare(Options& options) override { options.Argument("TARGET", "what to look at", text_); }

  Outcome Run(VerbContext& context) override {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::CheckTargetRequest request;
    request.mutable_target()->set_text(*target);
    auto reply = Ask<proto::CheckTargetReply>(context.session, Method::kCheckTarget, request);
    if (!reply) return std::unexpected(reply.error());
    const bool complete = reply->cached_blocks() >= reply->blocks();
    if (context.console.json()) {
      PrintJson(context.console, *target, *reply, complete);
    } else {
      PrintText(context.console, *target, *reply, complete);
    }
    return complete ? Exit::kDone : Exit::kPartly;
  }

 private:
  static void PrintJson(const Console& console, const std::string& target,
                        const proto::CheckTargetReply& reply, bool complete) {
    boost::json::object document = NewDocument();
    PutBytes(document, "target", target);
    document["link"] = reply.link();
    document["complete"] = complete;
    document["objects"] = reply.objects();
    document["bytes"] = reply.bytes();
    document["blocks"] = reply.blocks();
    document["cached_objects"] = reply.cached_objects();
    document["cached_bytes"] = reply.cached_bytes();
    document["cached_blocks"] = reply.cached_blocks();
    document["cached_ratio"] = Ratio(reply.cached_bytes(), reply.bytes());
    document["hidden_keys"] = reply.hidden_keys();
    PrintDocument(console, document);
  }

  static void PrintText(const Console& console, const std::string& target,
                        const proto::CheckTargetReply& reply, bool complete) {
    console.out << fmt::format("{}: {}, {}\n", Escaped(target),
                               complete ? "all cached" : "partly cached",
                               HumanPercent(Ratio(reply.cached_bytes(), reply.bytes())));
    const auto line = [&](const char* what, const std::string& cached, const std::string& all) {
      console.out << fmt::format("  {:<8}{:>12} of {:>12}\n", what, cached, all);
    };
    line("objects", HumanCount(reply.cached_objects()), HumanCount(reply.objects()));
    line("bytes", HumanBytes(reply.cached_bytes()), HumanBytes(reply.bytes()));
    line("blocks", HumanCount(reply.cached_blocks()), HumanCount(reply.blocks()));
    if (reply.hidden_keys() > 0) {
      console.out << fmt::format(
          "  {} keys cannot be shown as files: `forebay ls {} --hidden` lists them\n",
          HumanCount(reply.hidden_keys()), reply.link());
    }
    console.out << std::flush;
  }

  std::string text_;
};

}  // namespace

std::unique_ptr<Verb> MakeCheck() { return std::make_unique<CheckVerb>(); }

}  // namespace forebay
