#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <istream>
#include <ostream>
#include <utility>

#include "cli/cluster_stats.h"
#include "cli/freed.h"
#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"

namespace forebay {
namespace {

class EvictVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "what to free", text_);
    options.Switch("--dry-run", "only show what would be freed", dry_run_);
    options.Switch("--yes", "do not ask", yes_);
  }

  Outcome Run(VerbContext& context) override {
    const Console& console = context.console;
    if (!dry_run_ && !yes_ && !console.CanAsk()) {
      return UsageError("evict asks before it frees, and here is no terminal to ask at",
                        "give --yes, or --dry-run to see what it would free");
    }
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    if (dry_run_ || !yes_) {
      auto would = Evict(context.session, *target, true);
      if (!would) return std::unexpected(would.error());
      if (dry_run_) {
        PrintDryRun(console, *target, *would);
        return Exit::kDone;
      }
      if (!Agreed(context.console, *target, *would)) {
        return std::unexpected(Failure(
            Error{Code::kInvalid, "nothing was freed: the answer was not yes"}, "", Exit::kFailed));
      }
    }
    auto done = Evict(context.session, *target, false);
    if (!done) return std::unexpected(done.error());
    if (console.json()) {
      PrintJson(console, *target, *done);
    } else {
      PrintFreed(console, done->nodes());
    }
    return SumOf(done->nodes()).exit;
  }

 private:
  static std::expected<proto::EvictTargetReply, Failure> Evict(Session& session,
                                                               const std::string& target,
                                                               bool dry_run) {
    proto::EvictTargetRequest request;
    request.mutable_target()->set_text(target);
    request.set_dry_run(dry_run);
    return Ask<proto::EvictTargetReply>(session, Method::kEvictTarget, request);
  }

  static bool Agreed(Console& console, const std::string& target,
                     const proto::EvictTargetReply& would) {
    console.err << fmt::format("Free {} cached of the {} objects of {}? [y/N] ",
                               HumanBytes(would.cached_bytes()), HumanCount(would.objects()),
                               Escaped(target))
                << std::flush;
    std::string answer;
    std::getline(console.in, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
  }

  static void PrintDryRun(const Console& console, const std::string& target,
                          const proto::EvictTargetReply& would) {
    if (console.json()) {
      PrintJson(console, target, would, true);
      return;
    }
    console.out << fmt::format("would free {} cached of the {} objects of {}\n",
                               HumanBytes(would.cached_bytes()), HumanCount(would.objects()),
                               Escaped(target))
                << std::flush;
  }

  static void PrintJson(const Console& console, const std::string& target,
                        const proto::EvictTargetReply& reply, bool dry_run = false) {
    const Freed freed = SumOf(reply.nodes());
    boost::json::object document = NewDocument();
    PutBytes(document, "target", target);
    document["link"] = reply.link();
    document["dry_run"] = dry_run;
    document["objects"] = reply.objects();
    document["cached_bytes"] = reply.cached_bytes();
    document["freed_blocks"] = freed.blocks;
    document["freed_bytes"] = freed.bytes;
    boost::json::array nodes;
    for (const proto::NodeEvicted& node : reply.nodes()) nodes.emplace_back(EvictedJson(node));
    document["nodes"] = std::move(nodes);
    PrintDocument(console, document);
  }

  std::string text_;
  bool dry_run_ = false;
  bool yes_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeEvict() { return std::make_unique<EvictVerb>(); }

}  // namespace forebay
