#include <fmt/format.h>

#include <ostream>

#include "cli/json.h"
#include "cli/name_list.h"
#include "cli/preload_result.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// What S3 Standard asks for a million GETs (AWS, "Amazon S3 pricing", us-east-1).
constexpr double kDollarsPerMillionGets = 0.4;

class PreloadVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "a link, a folder or a file", text_);
    options.Add({.name = "--file",
                 .short_name = "-f",
                 .value = "FILE",
                 .help = "only these: one path on each line, relative to TARGET; - reads the input",
                 .take = [this](const std::string& text) -> Status {
                   names_ = text;
                   return {};
                 }});
    options.Text("--order", "FILE", "these first, in this order, then the rest", order_);
    options.Switch(
        "--verify",
        "compare what is cached with its checksums and fetch what differs, then with what was "
        "uploaded by S3's own checksums: what differs is evicted and reported",
        verify_);
    options.Switch("--skip-existing", "do not fetch what is cached: so it is always", skip_);
    options.Flag("--rate-limit", "RATE", "fetch at most so much, over all nodes: 200MB/s",
                 [this](const std::string& text) { return TakeRate(text); });
    options.Flag("--until", "SHARE", "end when so much of TARGET's bytes is cached: 80%",
                 [this](const std::string& text) { return TakeShare(text); });
    options.Switch("--dry-run", "say what it would take, and begin nothing", dry_run_);
  }

  Outcome Run(VerbContext& context) override {
    if (names_ == "-" && order_ == "-")
      return UsageError("the input can be read once: give -f or --order a file");
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::PreloadRequest request;
    request.mutable_target()->set_text(*target);
    request.set_verify(verify_);
    request.set_bytes_per_second(rate_);
    request.set_until_ratio(share_);
    if (!names_.empty()) {
      auto upload = UploadNames(context.session, context.console, names_);
      if (!upload) return std::unexpected(upload.error());
      request.set_names_upload(*upload);
    }
    if (!order_.empty()) {
      auto upload = UploadNames(context.session, context.console, order_);
      if (!upload) return std::unexpected(upload.error());
      request.set_order_upload(*upload);
    }
    request.set_dry_run(dry_run_);
    request.set_room_only(!dry_run_);
    auto look = Ask<proto::PreloadReply>(context.session, Method::kPreload, request);
    if (!look) return std::unexpected(look.error());
    WarnOfSize(context.console, *target, *look);
    if (dry_run_) {
      PrintDryRun(context.console, *target, *look);
      return Exit::kDone;
    }
    request.set_room_only(false);
    auto reply = Ask<proto::PreloadReply>(context.session, Method::kPreload, request);
    if (!reply) return std::unexpected(reply.error());
    return Follow(context, *target, *reply);
  }

 private:
  Status TakeRate(const std::string& text) {
    const Result<std::uint64_t> rate = ParseRate(text);
    if (!rate) return Fail(rate.error());
    if (*rate == 0) return Fail(Code::kInvalid, "a rate of 0 would never end");
    rate_ = *rate;
    return {};
  }

  Status TakeShare(const std::string& text) {
    const Result<double> share = ParsePercent(text);
    if (!share) return Fail(share.error());
    if (*share <= 0) return Fail(Code::kInvalid, "0% is cached already");
    share_ = *share;
    return {};
  }

  /// Before anything has begun.
  static void WarnOfSize(const Console& console, const std::string& target,
                         const proto::PreloadReply& look) {
    if (look.needed_bytes() <= look.room_bytes()) return;
    const std::string room =
        look.quota_bound()
            ? fmt::format("the quota of link '{}' leaves {}", look.link(),
                          HumanBytes(look.room_bytes()))
            : fmt::format("{} is free or may be evicted for it", HumanBytes(look.room_bytes()));
    const std::string text = fmt::format(
        "'{}' needs {} that is not cached yet, and {}: about {} of it will not be kept (exit 3)",
        target, HumanBytes(look.needed_bytes()), room,
        HumanBytes(look.needed_bytes() - look.room_bytes()));
    if (console.json()) {
      boost::json::object line;
      PutBytes(line, "warning", text);
      line["needed_bytes"] = look.needed_bytes();
      line["room_bytes"] = look.room_bytes();
      console.err << JsonText(line) << '\n' << std::flush;
    } else {
      console.err << Escaped(text) << '\n' << std::flush;
    }
  }

  static Outcome Follow(VerbContext& context, const std::string& target,
                        const proto::PreloadReply& reply) {
    if (reply.joined() && !context.console.json()) {
      context.console.err << fmt::format("'{}' is being preloaded already: joined task {}\n",
                                         Escaped(target), reply.task_id())
                          << std::flush;
    }
    proto::TaskState task;
    task.set_id(reply.task_id());
    task.set_kind("preload");
    task.set_target(target);
    task.set_total(reply.objects());
    task.set_total_bytes(reply.bytes());
    return WaitForPreload(context, task);
  }

  static void PrintDryRun(const Console& console, const std::string& target,
                          const proto::PreloadReply& reply) {
    const std::uint64_t gets = reply.blocks() - reply.cached_blocks();
    const double dollars = static_cast<double>(gets) * kDollarsPerMillionGets / 1e6;
    if (console.json()) {
      boost::json::object document = NewDocument();
      PutBytes(document, "target", target);
      document["link"] = reply.link();
      document["dry_run"] = true;
      document["objects"] = reply.objects();
      document["bytes"] = reply.bytes();
      document["blocks"] = reply.blocks();
      document["cached_objects"] = reply.cached_objects();
      document["cached_bytes"] = reply.cached_bytes();
      document["cached_blocks"] = reply.cached_blocks();
      document["gets"] = gets;
      document["price_usd"] = dollars;
      document["capacity_bytes"] = reply.capacity_bytes();
      document["needed_bytes"] = reply.needed_bytes();
      document["room_bytes"] = reply.room_bytes();
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format(
                       "'{}': {} objects, {}; {} objects and {} of it are cached\n"
                       "{} GETs are needed, about ${:.4f} at ${:.2f} a million\n",
                       Escaped(target), HumanCount(reply.objects()), HumanBytes(reply.bytes()),
                       HumanCount(reply.cached_objects()), HumanBytes(reply.cached_bytes()),
                       HumanCount(gets), dollars, kDollarsPerMillionGets)
                << std::flush;
  }

  std::string text_;
  std::string names_;
  std::string order_;
  bool verify_ = false;
  bool skip_ = false;
  bool dry_run_ = false;
  std::uint64_t rate_ = 0;
  double share_ = 0;
};

}  // namespace

std::unique_ptr<Verb> MakePreload() { return std::make_unique<PreloadVerb>(); }

}  // namespace forebay
