#include "coordinator/daemon.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/program.h"
#include "common/base/version.h"
#include "common/config/coordinator_config.h"
#include "common/config/log_config.h"
#include "common/config/programs.h"
#include "common/config/s3_config.h"
#include "common/config/sections.h"
#include "common/config/trust_config.h"
#include "common/s3/auth/default_chain.h"
#include "common/s3/auth/region_lookup.h"
#include "common/s3/endpoint.h"
#include "common/s3/s3_client.h"
#include "common/s3/s3_metrics.h"
#include "common/trust/token_record.h"
#include "common/wire/handshake.h"
#include "coordinator/coordinator.h"
#include "coordinator/own_requests.h"

namespace forebay {
namespace {

constexpr std::string_view kProgram = kCoordinatorProgram.name;

S3Options S3OptionsOf(const S3Config& config, const std::string& ca_bundle, OwnRequests& requests) {
  S3Options options;
  options.governor = &requests;
  options.http.max_connections = config.max_connections;
  options.http.first_byte_timeout = config.first_byte_timeout;
  options.http.stall_timeout = config.stall_timeout;
  options.http.ca_bundle = ca_bundle;
  options.http.user_agent = std::string("forebay/") + std::string(Version());
  return options;
}

/// S3 in front of the coordinator: the client starts first and is interrupted by its Stop.
class CoordinatorDaemon final : public Daemon {
 public:
  CoordinatorDaemon(const CoordinatorConfig& config, const S3Config& s3, const TrustConfig& trust,
                    ProgramServices& services)
      : config_(config),
        trust_(trust),
        services_(services),
        environment_(AwsEnvironment::OfProcess()),
        ca_bundle_(CaBundleOf(s3.ca_bundle, environment_)),
        s3_(S3OptionsOf(s3, ca_bundle_, requests_),
            DefaultCredentialChain(environment_, ca_bundle_)) {}

  Status Start() override {
    Result<std::string> secret = LoadOrCreateSecret();
    if (!secret) return Fail(secret.error());
    Result<std::shared_ptr<Trust>> trust =
        Trust::Open(TrustFolder(trust_.dir), proto::ROLE_COORDINATOR);
    if (!trust) return Fail(trust.error());
    proof_ = *trust;
    s3_.Start();
    CoordinatorOptions options;
    options.state_dir = config_.state_dir;
    options.listen = config_.listen;
    options.reach = trust_.insecure_plain_tcp ? Reach::kEveryone : Reach::kThisMachine;
    options.program = std::string(kProgram) + " " + std::string(Version());
    options.background_fill = config_.background_fill;
    options.fill_bytes_per_second = config_.fill_limit;
    options.drain_bytes_per_second = config_.drain_limit;
    options.secret = std::move(*secret);
    options.trust = proof_;
    if (proof_) options.first_token_file = trust_.dir + "/" + kFirstTokenFile;
    CoordinatorOrigin origin{.store = s3_,
                             .requests = requests_,
                             .complete =
                                 [this](LinkOrigin partial, std::optional<bool> path_style) {
                                   return CompleteOrigin(
                                       std::move(partial), path_style, environment_,
                                       NetworkRegionSources(environment_, ca_bundle_));
                                 },
                             .interrupt = [this] { s3_.Stop(); }};
    Result<std::unique_ptr<Coordinator>> coordinator =
        Coordinator::Start(std::move(options), std::move(origin));
    if (!coordinator) return Fail(coordinator.error());
    coordinator_ = std::move(*coordinator);
    coordinator_metrics_ = coordinator_->Observe(services_.metrics);
    s3_metrics_ = services_.metrics.AddCollector(
        [this](MetricSamples& samples) { ReportS3(s3_.counters(), samples); });
    return {};
  }

  void Stop(Deadline) override {
    coordinator_metrics_ = {};
    s3_metrics_ = {};
    if (coordinator_) coordinator_->Stop();
    s3_.Stop();
  }

  std::vector<IoPool*> Loops() override { return coordinator_->Loops(); }

  void Reload() override {
    s3_.ReloadCredentials();
    ReloadTrust(proof_.get());
  }

  std::vector<std::pair<std::string, std::string>> Addresses() const override {
    return {{"listen", coordinator_->address()}};
  }

 private:
  const CoordinatorConfig& config_;
  const TrustConfig& trust_;
  ProgramServices& services_;
  const AwsEnvironment environment_;
  const std::string ca_bundle_;
  OwnRequests requests_;
  std::shared_ptr<Trust> proof_;
  S3Client s3_;
  std::unique_ptr<Coordinator> coordinator_;
  Metrics::Registration coordinator_metrics_;
  Metrics::Registration s3_metrics_;
};

}  // namespace

int RunCoordinator(int argc, char** argv) {
  CoordinatorConfig coordinator;
  S3Config s3;
  TrustConfig trust;
  LogConfig log;
  AllConfigs all;
  ProgramSpec spec{.name = std::string(kProgram),
                   .summary = std::string(kCoordinatorProgram.summary)};
  spec.own = {CoordinatorSection(coordinator), S3Section(s3),
              TrustSection(trust, {{"--listen", &coordinator.listen}}), LogSection(log)};
  spec.others = all.SectionsBeside(spec.own);
  spec.log = &log;
  spec.metrics_listen = &coordinator.metrics_listen;
  spec.make = [&](ProgramServices& services) {
    return std::make_unique<CoordinatorDaemon>(coordinator, s3, trust, services);
  };
  return RunProgram(spec, argc, argv);
}

}  // namespace forebay
