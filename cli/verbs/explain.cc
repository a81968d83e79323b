#include "cli/explain_job.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

class ExplainVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Text("--job", "ID", "a job: where its reads wait, and what would help", job_);
  }

  Outcome Run(VerbContext& context) override {
    if (job_.empty()) {
      return UsageError("explain needs --job ID", "`forebay stats --jobs` shows the jobs");
    }
    return ExplainJob(context, job_);
  }

 private:
  std::string job_;
};

}  // namespace

std::unique_ptr<Verb> MakeExplain() { return std::make_unique<ExplainVerb>(); }

}  // namespace forebay
