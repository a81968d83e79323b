#include "cli/explain_file.h"
#include "cli/explain_job.h"
#include "cli/verb_table.h"
#include "common/base/wall_clock.h"

namespace forebay {
namespace {

class ExplainVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.OptionalArgument(
        "TARGET", "a file: where it is cached, who read it last, and why it is not cached", text_);
    options.Text("--job", "ID", "a job: where its reads wait, and what would help", job_);
  }

  Outcome Run(VerbContext& context) override {
    if (text_.empty() == job_.empty()) {
      return UsageError("explain takes a file or --job ID",
                        "`forebay ls --cached TARGET` shows files, `forebay stats --jobs` jobs");
    }
    return job_.empty() ? ExplainFile(context) : ExplainJob(context, job_);
  }

 private:
  Outcome ExplainFile(VerbContext& context) const {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::ExplainRequest request;
    request.mutable_target()->set_text(*target);
    auto reply = Ask<proto::ExplainReply>(context.session, Method::kExplain, request);
    if (!reply) return std::unexpected(reply.error());
    const bool complete = PrintExplainedFile(context.console, *reply, UnixSeconds());
    return complete ? Exit::kDone : Exit::kPartly;
  }

  std::string text_;
  std::string job_;
};

}  // namespace

std::unique_ptr<Verb> MakeExplain() { return std::make_unique<ExplainVerb>(); }

}  // namespace forebay
