#include "cachenode/daemon.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cachenode/node.h"
#include "common/base/program.h"
#include "common/base/version.h"
#include "common/config/log_config.h"
#include "common/config/machine.h"
#include "common/config/node_config.h"
#include "common/config/programs.h"
#include "common/config/s3_config.h"
#include "common/config/sections.h"
#include "common/config/trust_config.h"
#include "common/s3/auth/default_chain.h"
#include "common/s3/s3_client.h"
#include "common/s3/s3_metrics.h"
#include "common/wire/handshake.h"

namespace forebay {
namespace {

constexpr std::string_view kProgram = kNodeProgram.name;

S3Options S3OptionsOf(const S3Config& config, const AwsEnvironment& environment) {
  S3Options options;
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

NodeOptions NodeOptionsOf(const NodeConfig& config, const S3Config& s3) {
  NodeOptions options;
  for (const CacheDir& dir : config.cache_dir) {
    options.store.dirs.push_back(CacheDirOptions{.path = dir.path, .capacity_bytes = dir.bytes});
  }
  options.state_dir = config.state_dir;
  options.accept_new_disk = config.accept_new_disk;
  options.coordinators = config.coordinator;
  options.listen = config.listen;
  options.advertise = config.advertise;
  options.node_id = config.node_id;
  options.zone = config.zone;
  options.local_socket = config.local_socket;
  options.program = std::string(kProgram) + " " + std::string(Version());
  options.threads = config.threads;
  options.filler.s3_timeout = config.s3_timeout;
  options.memory_limit = config.memory_limit;
  options.disks.scrub_bytes_per_s = config.scrub_rate;
  options.verify_bytes_per_s = config.verify_rate;
  options.copy_bytes_per_s = config.copy_limit;
  options.max_bandwidth = config.max_bandwidth;
  options.filler.max_fills = 2 * s3.max_connections;
  return options;
}

/// All that this program is configured by. The sections refer to the members.
struct OwnConfig {
  NodeConfig node = {};
  S3Config s3 = {};
  TrustConfig trust = {.dir = DefaultNodeTrustDir()};
  LogConfig log = {};
  std::vector<ConfigSection> sections = {
      NodeSection(node), S3Section(s3),
      TrustSection(trust, {{"--listen", &node.listen}}, &node.metrics_listen), LogSection(log)};

  OwnConfig() = default;
  OwnConfig(const OwnConfig&) = delete;
  OwnConfig& operator=(const OwnConfig&) = delete;
};

/// S3 behind the node: the client starts first and is interrupted by its Stop.
class NodeDaemon final : public Daemon {
 public:
  /// `running` are the sections as they were read from `sources`; they stay so.
  NodeDaemon(const NodeConfig& config, const S3Config& s3, const TrustConfig& trust,
             const std::vector<ConfigSection>& running, ConfigSources sources,
             ProgramServices& services)
      : config_(config),
        trust_(trust),
        s3_config_(s3),
        running_(running),
        sources_(std::move(sources)),
        services_(services),
        environment_(AwsEnvironment::OfProcess()),
        s3_(S3OptionsOf(s3, environment_), DefaultCredentialChain(environment_, s3.ca_bundle)) {}

  Status Start() override {
    if (config_.cpu_limit != 0 && !KeepToCpus(config_.cpu_limit))
      return Fail(Code::kInternal, "the kernel does not let this node keep to cpu_limit CPUs: " +
                                       std::generic_category().message(errno));
    Result<Secret> secret = LoadOrCreateSecret();
    if (!secret) return Fail(secret.error());
    Result<std::shared_ptr<Trust>> trust = Trust::Open(TrustFolder(trust_.dir), proto::ROLE_NODE);
    if (!trust) return Fail(trust.error());
    proof_ = *trust;
    s3_.Start();
    NodeOptions options = NodeOptionsOf(config_, s3_config_);
    options.secret = std::move(*secret);
    options.trust = proof_;
    options.reach = trust_.insecure_plain_tcp ? Reach::kEveryone : Reach::kThisMachine;
    NodeOrigin origin{.store = s3_, .interrupt = [this] { s3_.Stop(); }};
    Result<std::unique_ptr<Node>> node =
        Node::Start(std::move(options), std::move(origin), services_.metrics, services_.stopping);
    if (!node) return Fail(node.error());
    node_ = std::move(*node);
    s3_metrics_ = services_.metrics.AddCollector(
        [this](MetricSamples& samples) { ReportS3(s3_.counters(), samples); });
    return {};
  }

  void Stop(Deadline drain) override {
    s3_metrics_ = {};
    if (node_) node_->Stop(drain);
    s3_.Stop();
  }

  std::vector<IoPool*> Loops() override { return node_->Loops(); }

  bool HangsOn() const override { return node_ && node_->HangsOn(); }

  void Reload() override {
    s3_.ReloadCredentials();
    ReloadTrust(proof_.get());
    ReloadConfig();
  }

  std::vector<std::pair<std::string, std::string>> Addresses() const override {
    return {{"listen", node_->address()}, {"id", node_->id()}};
  }

 private:
  /// The sizes of the cache directories change while the node runs; all else at its next start, and
  /// it says so.
  void ReloadConfig() {
    OwnConfig read;
    AllConfigs all;
    std::vector<ConfigSection> others = all.SectionsBeside(read.sections);
    const ConfigOutcome outcome = LoadConfig(sources_, read.sections, others);
    for (const std::string& fault : outcome.faults)
      spdlog::error("the configuration is left as it was read before: {}", fault);
    if (!outcome.faults.empty()) return;
    for (const ConfigChange& change : ChangesBetween(running_, read.sections)) {
      if (change.section == "node" && change.key == "cache_dir") continue;
      spdlog::warn("{} under [{}] is {} now: this node goes on with {} until it is started again",
                   change.key, change.section, change.now, change.before);
    }
    std::vector<CacheDirOptions> dirs;
    dirs.reserve(read.node.cache_dir.size());
    for (const CacheDir& dir : read.node.cache_dir) dirs.push_back({dir.path, dir.bytes});
    node_->Resize(dirs);
  }

  const NodeConfig& config_;
  const TrustConfig& trust_;
  const S3Config& s3_config_;
  const std::vector<ConfigSection>& running_;
  const ConfigSources sources_;
  ProgramServices& services_;
  const AwsEnvironment environment_;
  std::shared_ptr<Trust> proof_;
  S3Client s3_;
  std::unique_ptr<Node> node_;
  Metrics::Registration s3_metrics_;
};

}  // namespace

int RunNode(int argc, char** argv) {
  OwnConfig own;
  AllConfigs all;
  ProgramSpec spec{.name = std::string(kProgram), .summary = std::string(kNodeProgram.summary)};
  spec.own = own.sections;
  spec.others = all.SectionsBeside(spec.own);
  spec.log = &own.log;
  spec.metrics_listen = &own.node.metrics_listen;
  spec.doubts = [&] { return CacheDirDoubts(own.node); };
  spec.make = [&](ProgramServices& services) {
    return std::make_unique<NodeDaemon>(own.node, own.s3, own.trust, spec.own,
                                        SourcesOfProcess(argc, argv), services);
  };
  return RunProgram(spec, argc, argv);
}

}  // namespace forebay
