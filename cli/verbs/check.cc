#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>
#include <string_view>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

class CheckVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "what to look at", text_);
    options.Switch("--verify",
                   "the nodes read what they hold from their disks, compare it with its checksums "
                   "and drop what does not match",
                   verify_);
  }

  Outcome Run(VerbContext& context) override {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::CheckTargetRequest request;
    request.mutable_target()->set_text(*target);
    request.set_verify(verify_);
    auto reply = Ask<proto::CheckTargetReply>(context.session, Method::kCheckTarget, request);
    if (!reply) return std::unexpected(reply.error());
    const bool complete = reply->cached_blocks() >= reply->blocks();
    if (context.console.json()) {
      PrintJson(context.console, *target, *reply, complete, verify_);
    } else {
      PrintText(context.console, *target, *reply, complete);
    }
    // kFailed is that of a look that failed: a script must not take that for "nothing is cached".
    return complete ? Exit::kDone : Exit::kPartly;
  }

 private:
  static void PrintJson(const Console& console, const std::string& target,
                        const proto::CheckTargetReply& reply, bool complete, bool verified) {
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
    document["unknown_blocks"] = reply.unknown_blocks();
    document["unknown_bytes"] = reply.unknown_bytes();
    document["set_aside_blocks"] = reply.set_aside_blocks();
    boost::json::array unknown;
    for (const proto::UnknownNode& node : reply.unknown()) {
      boost::json::object row;
      row["id"] = ValidUtf8(node.node_id());
      row["reason"] = ValidUtf8(node.reason());
      row["blocks"] = node.blocks();
      unknown.emplace_back(std::move(row));
    }
    document["unknown"] = std::move(unknown);
    document["verified_blocks"] =
        verified ? boost::json::value(reply.verified_blocks()) : boost::json::value();
    document["corrupt_blocks"] =
        verified ? boost::json::value(reply.corrupt_blocks()) : boost::json::value();
    document["changed_objects"] = reply.changed_objects();
    boost::json::array changed;
    for (const proto::ChangedFile& file : reply.changed()) {
      boost::json::object row;
      PutBytes(row, "path", file.path());
      row["since"] = Rfc3339(file.since_unix_s());
      changed.emplace_back(std::move(row));
    }
    document["changed"] = std::move(changed);
    PrintDocument(console, document);
  }

  static void PrintChanged(const Console& console, const proto::CheckTargetReply& reply) {
    if (reply.changed_objects() == 0) return;
    console.out << fmt::format(
        "  {} changed in S3 since the listing; reads of what is not cached of them fail with "
        "ESTALE:\n",
        Counted(reply.changed_objects(), "object"));
    for (const proto::ChangedFile& file : reply.changed()) {
      console.out << fmt::format("    {} (found {})\n", Escaped(file.path()),
                                 Rfc3339(file.since_unix_s()));
    }
    const auto shown = static_cast<std::uint64_t>(reply.changed_size());
    if (shown < reply.changed_objects())
      console.out << fmt::format("    and {} more\n", reply.changed_objects() - shown);
  }

  void PrintText(const Console& console, const std::string& target,
                 const proto::CheckTargetReply& reply, bool complete) const {
    const std::string_view state = complete                     ? "all cached"
                                   : reply.cached_blocks() == 0 ? "not cached"
                                                                : "partly cached";
    console.out << fmt::format("{}: {}, {}\n", Escaped(target), state,
                               HumanPercent(Ratio(reply.cached_bytes(), reply.bytes())));
    const auto line = [&](const char* what, const std::string& cached, const std::string& all) {
      console.out << fmt::format("  {:<8}{:>12} of {:>12}\n", what, cached, all);
    };
    line("objects", HumanCount(reply.cached_objects()), HumanCount(reply.objects()));
    line("bytes", HumanBytes(reply.cached_bytes()), HumanBytes(reply.bytes()));
    line("blocks", HumanCount(reply.cached_blocks()), HumanCount(reply.blocks()));
    for (const proto::UnknownNode& node : reply.unknown()) {
      console.out << fmt::format("  unknown: {} on node {} ({})\n", Counted(node.blocks(), "block"),
                                 Escaped(node.node_id()), Escaped(node.reason()));
    }
    if (verify_) {
      console.out << fmt::format("  verified {}, dropped {} that did not match\n",
                                 Counted(reply.verified_blocks(), "block"),
                                 HumanCount(reply.corrupt_blocks()));
    }
    if (reply.set_aside_blocks() > 0) {
      console.out << fmt::format(
          "  {} blocks are set aside: a node crashed on each of them three times, and they are "
          "read "
          "from S3; report it with the node's log, and `forebay evict {}` lets a newer program try "
          "again\n",
          HumanCount(reply.set_aside_blocks()), Escaped(target));
    }
    PrintChanged(console, reply);
    if (reply.hidden_keys() > 0) {
      console.out << fmt::format("  {} cannot be shown as {}: `forebay ls {} --hidden` says why\n",
                                 Counted(reply.hidden_keys(), "key"),
                                 reply.hidden_keys() == 1 ? "a file" : "files", reply.link());
    }
    console.out << std::flush;
  }

  std::string text_;
  bool verify_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeCheck() { return std::make_unique<CheckVerb>(); }

}  // namespace forebay
