#include <fmt/format.h>

#include "cli/brakes.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

/// `pause fills` and `resume fills`.
class PauseVerb final : public Verb {
 public:
  explicit PauseVerb(bool pauses) : pauses_(pauses) {}

  void Declare(Options& options) override {
    options.Argument("WHAT",
                     pauses_ ? "fills: nodes ask S3 for nothing; what is cached is read at full "
                               "speed, other reads wait up to --s3-timeout of node and mount"
                             : "fills: nodes ask S3 again",
                     what_);
  }

  Outcome Run(VerbContext& context) override {
    if (what_ != "fills") {
      return UsageError(
          fmt::format("'{}' cannot be {}, only fills", what_, pauses_ ? "paused" : "resumed"));
    }
    proto::SetFillLimitsRequest request;
    request.set_paused(pauses_);
    return ChangeBrakes(context.session, context.console, request);
  }

 private:
  const bool pauses_;
  std::string what_;
};

}  // namespace

std::unique_ptr<Verb> MakePause() { return std::make_unique<PauseVerb>(true); }
std::unique_ptr<Verb> MakeResume() { return std::make_unique<PauseVerb>(false); }

}  // namespace forebay
