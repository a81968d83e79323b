#include "coordinator/daemon.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/host_port.h"
#include "common/base/program.h"
#include "common/base/version.h"
#include "common/config/coordinator_config.h"
#include "common/config/log_config.h"
#include "common/config/machine.h"
#include "common/config/programs.h"
#include "common/config/s3_config.h"
#include "common/config/sections.h"
#include "common/config/trust_config.h"
#include "common/trust/token_record.h"
#include "common/wire/handshake.h"
#include "coordinator/role_keeper.h"
#include "coordinator/solo_keeper.h"

namespace forebay {
namespace {

constexpr std::string_view kProgram = kCoordinatorProgram.name;

/// As for our own ports (DESIGN section 2, promise 6): whoever reads along reads all of the state.
Status CheckPlainEtcd(const CoordinatorConfig& config, const TrustConfig& trust) {
  constexpr std::string_view kPlain = "http://";
  for (const std::string& url : config.etcd) {
    if (!url.starts_with(kPlain) || trust.insecure_plain_tcp) continue;
    const Result<HostPort> at = HostPort::Parse(std::string_view(url).substr(kPlain.size()));
    if (at && at->IsLoopback()) continue;
    return Fail(Code::kInvalid, url +
                                    " is on another machine and not encrypted: use https, or "
                                    "--insecure-plain-tcp on a network where nobody listens");
  }
  return {};
}

EtcdOptions EtcdOptionsOf(const CoordinatorConfig& config) {
  return EtcdOptions{.endpoints = config.etcd,
                     .ca_bundle = config.etcd_ca,
                     .certificate = config.etcd_cert,
                     .key = config.etcd_key,
                     .user = config.etcd_user,
                     .password_file = config.etcd_password_file,
                     .prefix = config.etcd_prefix};
}

/// A coordinator that is alone, or one of several.
class CoordinatorDaemon final : public Daemon {
 public:
  CoordinatorDaemon(const CoordinatorConfig& config, const S3Config& s3, const TrustConfig& trust,
                    ProgramServices& services)
      : config_(config), s3_(s3), trust_(trust), services_(services) {}

  Status Start() override {
    CoordinatorOptions options;
    Status complete = CheckPlainEtcd(config_, trust_);
    if (complete) complete = Complete(options);
    if (!complete) return complete;
    if (config_.etcd.empty()) {
      Result<std::unique_ptr<SoloKeeper>> alone =
          SoloKeeper::Start(std::move(options), s3_, services_);
      if (!alone) return Fail(alone.error());
      alone_ = std::move(*alone);
      return {};
    }
    Result<std::unique_ptr<RoleKeeper>> keeper =
        RoleKeeper::Start(RoleKeeper::Parts{.options = std::move(options),
                                            .etcd = EtcdOptionsOf(config_),
                                            .s3 = s3_,
                                            .services = services_});
    if (!keeper) return Fail(keeper.error());
    keeper_ = std::move(*keeper);
    return {};
  }

  void Stop(Deadline) override {
    if (alone_) alone_->Stop();
    if (keeper_) keeper_->Stop();
  }

  std::vector<IoPool*> Loops() override {
    return alone_ ? alone_->Loops() : std::vector<IoPool*>();
  }

  void Reload() override {
    if (alone_) alone_->ReloadCredentials();
    if (keeper_) keeper_->ReloadCredentials();
    ReloadTrust(proof_.get());
  }

  std::vector<std::pair<std::string, std::string>> Addresses() const override {
    return {{"listen", alone_ ? alone_->address() : keeper_->address()}};
  }

 private:
  /// What is in the configuration and in the trust folder.
  Status Complete(CoordinatorOptions& options) {
    Result<Secret> secret = LoadOrCreateSecret();
    if (!secret) return Fail(secret.error());
    Result<std::shared_ptr<Trust>> trust =
        Trust::Open(TrustFolder(trust_.dir), proto::ROLE_COORDINATOR);
    if (!trust) return Fail(trust.error());
    const Status alone = *trust ? Status() : ExpectNoCluster(trust_.dir);
    if (!alone) return alone;
    proof_ = *trust;
    options.state_dir = config_.state_dir;
    options.listen = config_.listen;
    options.advertise = config_.advertise;
    options.reach = trust_.insecure_plain_tcp ? Reach::kEveryone : Reach::kThisMachine;
    options.program = std::string(kProgram) + " " + std::string(Version());
    options.background_fill = config_.background_fill;
    options.fill_bytes_per_second = config_.fill_limit;
    options.drain_bytes_per_second = config_.drain_limit;
    options.listing.wait.patience = config_.s3_timeout;
    options.reply_bytes = UsableMemory() / 4;
    options.secret = std::move(*secret);
    options.trust = proof_;
    if (proof_) options.first_token_file = trust_.dir + "/" + kFirstTokenFile;
    return {};
  }

  const CoordinatorConfig& config_;
  const S3Config& s3_;
  const TrustConfig& trust_;
  ProgramServices& services_;
  std::shared_ptr<Trust> proof_;
  std::unique_ptr<SoloKeeper> alone_;
  std::unique_ptr<RoleKeeper> keeper_;
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
              TrustSection(trust, {{"--listen", &coordinator.listen}}, &coordinator.metrics_listen),
              LogSection(log)};
  spec.others = all.SectionsBeside(spec.own);
  spec.log = &log;
  spec.metrics_listen = &coordinator.metrics_listen;
  spec.make = [&](ProgramServices& services) {
    return std::make_unique<CoordinatorDaemon>(coordinator, s3, trust, services);
  };
  return RunProgram(spec, argc, argv);
}

}  // namespace forebay
