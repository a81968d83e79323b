#include <fmt/format.h>

#include "cli/brakes.h"
#include "cli/verb_table.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// More is no limit that anybody could mean.
constexpr std::uint64_t kMostRequests = 1'000'000'000;

class LimitVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("WHAT", "s3: what all nodes together ask of S3 to fill the cache", what_);
    options.Argument(
        "RATE",
        "bytes as 500MB/s, or requests as 2000/s; none takes the limit away. Each node "
        "keeps to its part of it, by its capacity; what readers wait for goes first. Retries "
        "count; the LISTs of link and refresh do not",
        rate_);
  }

  Outcome Run(VerbContext& context) override {
    if (what_ != "s3")
      return UsageError(fmt::format("there is no limit for '{}', only for s3", what_));
    proto::SetFillLimitsRequest request;
    Status parsed = Parse(rate_, request);
    if (!parsed) return std::unexpected(Failure(parsed.error()));
    return ChangeBrakes(context.session, context.console, request);
  }

 private:
  static Status Parse(const std::string& text, proto::SetFillLimitsRequest& request) {
    if (text == "none") {
      request.set_no_limit(true);
      return {};
    }
    const bool plain = text.ends_with("/s") && text.size() > 2 &&
                       text.find_first_not_of("0123456789") == text.size() - 2;
    if (plain) {
      Result<std::uint64_t> requests =
          ParseUint(std::string_view(text).substr(0, text.size() - 2), 1, kMostRequests);
      if (!requests) return Fail(requests.error());
      request.set_requests_per_s(*requests);
      return {};
    }
    Result<std::uint64_t> bytes = ParseRate(text);
    if (!bytes || *bytes == 0) {
      return Fail(
          Code::kInvalid,
          fmt::format("\"{}\" is no rate: give bytes as 500MB/s, requests as 2000/s, or none",
                      text));
    }
    request.set_bytes_per_s(*bytes);
    return {};
  }

  std::string what_;
  std::string rate_;
};

}  // namespace

std::unique_ptr<Verb> MakeLimit() { return std::make_unique<LimitVerb>(); }

}  // namespace forebay
