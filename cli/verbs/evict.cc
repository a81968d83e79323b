#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cctype>
#include <chrono>
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
    options.Switch("--force", "also what a job reads that has read within 10 minutes", force_);
    options.Flag("--unused-for", "TIME",
                 "only what nobody has used for so long, in whole hours: 7d. Nodes remember it in "
                 "memory: after the restart of a node its blocks count as used then",
                 [this](const std::string& text) { return TakeUnusedFor(text); });
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
      auto would = Evict(context.session, Request(*target, true));
      if (!would) return std::unexpected(would.error());
      if (dry_run_) {
        PrintDryRun(console, *target, *would);
        return SumOf(would->nodes()).exit;
      }
      if (!Agreed(context.console, *target, *would)) {
        return std::unexpected(Failure(
            Error{Code::kInvalid, "nothing was freed: the answer was not yes"}, "", Exit::kFailed));
      }
    }
    auto done = Evict(context.session, Request(*target, false));
    if (!done) return std::unexpected(done.error());
    if (console.json()) {
      PrintJson(console, *target, *done);
    } else {
      PrintFreed(console, done->nodes());
    }
    return SumOf(done->nodes()).exit;
  }

 private:
  Status TakeUnusedFor(const std::string& text) {
    constexpr std::chrono::hours kMost{24 * 365 * 10};
    const Result<std::chrono::milliseconds> time = ParseDuration(text);
    if (!time) return Fail(time.error());
    if (*time < std::chrono::hours(1) || *time > kMost)
      return Fail(Code::kInvalid, fmt::format("\"{}\" is not from 1h to 10 years", text));
    unused_for_hours_ =
        static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::hours>(*time).count());
    return {};
  }

  proto::EvictTargetRequest Request(const std::string& target, bool dry_run) const {
    proto::EvictTargetRequest request;
    request.mutable_target()->set_text(target);
    request.set_dry_run(dry_run);
    request.set_force(force_);
    request.set_unused_for_hours(unused_for_hours_);
    return request;
  }

  static std::expected<proto::EvictTargetReply, Failure> Evict(
      Session& session, const proto::EvictTargetRequest& request) {
    return Ask<proto::EvictTargetReply>(session, Method::kEvictTarget, request);
  }

  static bool Agreed(Console& console, const std::string& target,
                     const proto::EvictTargetReply& would) {
    console.err << fmt::format("Free {} of the {} objects of {}? [y/N] ",
                               HumanBytes(SumOf(would.nodes()).bytes), HumanCount(would.objects()),
                               Escaped(target))
                << std::flush;
    std::string answer;
    std::getline(console.in, answer);
    std::erase_if(answer, [](unsigned char c) { return std::isspace(c) != 0; });
    std::ranges::transform(answer, answer.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return answer == "y" || answer == "yes";
  }

  static void PrintDryRun(const Console& console, const std::string& target,
                          const proto::EvictTargetReply& would) {
    if (console.json()) {
      PrintJson(console, target, would, true);
      return;
    }
    PrintFreed(console, would.nodes(), true);
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
    document["pinned_blocks"] = freed.pinned_blocks;
    document["pinned_bytes"] = freed.pinned_bytes;
    boost::json::array nodes;
    for (const proto::NodeEvicted& node : reply.nodes()) nodes.emplace_back(EvictedJson(node));
    document["nodes"] = std::move(nodes);
    PrintDocument(console, document);
  }

  std::string text_;
  bool dry_run_ = false;
  bool yes_ = false;
  bool force_ = false;
  std::uint32_t unused_for_hours_ = 0;
};

}  // namespace

std::unique_ptr<Verb> MakeEvict() { return std::make_unique<EvictVerb>(); }

}  // namespace forebay
