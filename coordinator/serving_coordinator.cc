#include "coordinator/serving_coordinator.h"

#include <optional>
#include <utility>

#include "common/base/version.h"
#include "common/s3/auth/region_lookup.h"
#include "common/s3/endpoint.h"
#include "common/s3/s3_metrics.h"

namespace forebay {
namespace {

S3Options S3OptionsOf(const S3Config& config, const AwsEnvironment& environment,
                      OwnRequests& requests) {
  S3Options options;
  options.governor = &requests;
  options.http.max_connections = config.max_connections;
  options.http.first_byte_timeout = config.first_byte_timeout;
  options.http.stall_timeout = config.stall_timeout;
  options.http.ca_bundle = CaBundleOf(config.ca_bundle, environment);
  options.ca_bundle_of = [given = config.ca_bundle, environment](const std::string& profile) {
    return CaBundleOf(given, environment, profile);
  };
  options.http.user_agent = std::string("forebay/") + std::string(Version());
  return options;
}

}  // namespace

ServingCoordinator::ServingCoordinator(const S3Config& s3)
    : environment_(AwsEnvironment::OfProcess()),
      ca_bundle_(s3.ca_bundle),
      s3_(S3OptionsOf(s3, environment_, requests_),
          DefaultCredentialChain(environment_, ca_bundle_)) {}

CoordinatorOrigin ServingCoordinator::Origin() {
  return CoordinatorOrigin{.store = s3_,
                           .requests = requests_,
                           .complete =
                               [this](LinkOrigin partial, std::optional<bool> path_style) {
                                 return CompleteOrigin(
                                     std::move(partial), path_style, environment_,
                                     NetworkRegionSources(environment_, ca_bundle_));
                               },
                           .interrupt = [this] { s3_.Stop(); }};
}

Result<std::unique_ptr<ServingCoordinator>> ServingCoordinator::Start(CoordinatorOptions options,
                                                                      const S3Config& s3,
                                                                      Metrics& metrics) {
  std::unique_ptr<ServingCoordinator> serving(new ServingCoordinator(s3));
  serving->s3_.Start();
  Result<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::Start(std::move(options), serving->Origin());
  if (!coordinator) return Fail(coordinator.error());
  serving->coordinator_ = std::move(*coordinator);
  serving->coordinator_metrics_ = serving->coordinator_->Observe(metrics);
  serving->s3_metrics_ = metrics.AddCollector(
      [self = serving.get()](MetricSamples& samples) { ReportS3(self->s3_.counters(), samples); });
  return serving;
}

ServingCoordinator::~ServingCoordinator() { Stop(); }

void ServingCoordinator::Stop() {
  coordinator_metrics_ = {};
  s3_metrics_ = {};
  if (coordinator_) coordinator_->Stop();
  s3_.Stop();
}

}  // namespace forebay
