#include "fuse-client/mount.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "common/base/files.h"
#include "common/base/machine_id.h"
#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/config/trust_config.h"
#include "common/model/link_set.h"
#include "common/wire/messages.h"
#include "common/wire/rpc_metrics.h"
#include "common/wire/trust_keeper.h"
#include "fuse-client/control_call.h"
#include "fuse-client/job_finder.h"
#include "fuse-client/job_text.h"
#include "fuse-client/mountpoint.h"
#include "fuse-client/shard_view.h"
#include "fuse-client/supervisor/upgrade_socket.h"

namespace forebay {

namespace {

/// How long a mount that goes into the background waits for its namespace: whoever started it waits
/// too, at boot perhaps.
constexpr Duration kBackgroundPatience = std::chrono::seconds(30);

/// One coordinator's answer to a request for a certificate.
constexpr Duration kRenewWithin = std::chrono::seconds(5);

/// A node's file that nobody has read from for so long is closed, or its file system could not be
/// unmounted while a mount is idle.
constexpr Duration kSegmentsKept = std::chrono::minutes(1);

const std::string kAllLinks = "/";

/// For what takes its time and is seldom asked: manifests.
constexpr std::size_t kSlowThreads = 2;
constexpr std::size_t kSlowWaiting = 64;

bool IsTop(const InheritedMount& mount) { return mount.mount.top(); }

}  // namespace

MountDaemon::MountDaemon(const MountConfig& config, std::string device, ProgramServices& services,
                         Keeper* keeper, std::string trust_dir)
    : config_(config),
      device_(std::move(device)),
      trust_dir_(std::move(trust_dir)),
      services_(services),
      keeper_(keeper),
      host_id_(config.local_reads == LocalReadsFrom::kNetwork ? "" : MachineId()),
      memory_(config.memory_limit),
      bandwidth_(config.max_bandwidth, "max_bandwidth of this mount"),
      metrics_(services.metrics),
      control_("mount-ctl", 1),
      threads_("mount-io", config.threads),
      offload_(kSlowThreads, kSlowWaiting) {}

MountDaemon::~MountDaemon() = default;

ClientPoolOptions MountDaemon::PoolOptions() const {
  ClientPoolOptions options;
  options.credentials = credentials_;
  options.silence = config_.failover_timeout;
  options.connect_timeout = ConnectPart(config_.failover_timeout);
  return options;
}

std::unique_ptr<ClientPool> MountDaemon::NewPool(asio::io_context& context) {
  return std::make_unique<ClientPool>(
      context, PoolOptions(), [this] { return ring_.epoch(); },
      [this](std::uint64_t epoch) { refresher_->Notice(epoch); });
}

Deadline MountDaemon::NamespaceDeadline() const {
  return Deadline::After(config_.foreground ? Duration(kForever) : kBackgroundPatience);
}

/// A look at a mount that is not served waits until it is: a successor does without.
Status MountDaemon::PreparePlace() {
  if (keeper_ == nullptr) {
    Result<std::unique_ptr<Keeper>> alone = Keeper::Alone(config_.threads + 1);
    if (!alone) return Fail(alone.error());
    own_keeper_ = std::move(*alone);
    keeper_ = own_keeper_.get();
  }
  inherited_ = TakeInheritedMounts(*keeper_);
  if (!inherited_.empty()) {
    const auto top = std::ranges::find_if(inherited_, IsTop);
    const InheritedMount& whole = top == inherited_.end() ? inherited_.front() : *top;
    mountpoint_ = whole.mount.mountpoint();
    return {};
  }
  ClearDeadMount(config_.mountpoint);
  const Status usable = CheckMountpoint(config_.mountpoint);
  if (!usable) return usable;
  Result<std::string> absolute = AbsoluteMountpoint(config_.mountpoint);
  if (!absolute) return Fail(absolute.error());
  mountpoint_ = std::move(*absolute);
  return {};
}

void MountDaemon::PrepareJobs() {
  jobs_ =
      std::make_unique<JobTable>(config_.job_id.empty() ? OwnJobId(mountpoint_) : config_.job_id);
  job_keeper_ = std::make_unique<JobKeeper>(*keeper_, *jobs_);
  job_reporter_ = std::make_unique<JobReporter>(control_.At(0), *control_pool_, *jobs_, pace_,
                                                config_.coordinator, [this] { EveryReport(); });
  const std::optional<std::uint64_t> incarnation = job_keeper_->Resume();
  if (incarnation) job_reporter_->Resume(*incarnation);
}

/// Every few seconds, on the thread of job_reporter_.
void MountDaemon::EveryReport() {
  job_keeper_->Save(job_reporter_->incarnation());
  segments_.CloseUnused(Clock::now() - kSegmentsKept);
}

void MountDaemon::KeepTrust() {
  trust_metrics_ = services_.metrics.AddCollector(
      [this](MetricSamples& samples) { ReportTrust(trust_.get(), samples); });
  auto ask = [this](std::shared_ptr<const proto::RenewRequest> request) -> Task<Result<RpcReply>> {
    return AskToRenew(std::move(request));
  };
  auto keeper = std::make_shared<TrustKeeper>(trust_, std::move(ask), offload_);
  // Whoever comes with a certificate that has ended may renew it and ask nothing else: at a
  // coordinator that answers, the first question has to wait for that. What goes wrong is told by
  // the keeper's next look, or by the answer to that question.
  if (trust_->ends_unix_s() <= UnixSeconds())
    std::ignore = WaitFor(control_.At(0), services_.stopping, keeper->Look());
  Spawn(control_.At(0), TrustKeeper::Run(std::move(keeper)));
}

Task<Result<RpcReply>> MountDaemon::AskToRenew(std::shared_ptr<const proto::RenewRequest> request) {
  Result<RpcReply> reply = co_await leader_->Ask(Method::kRenew, *request, kRenewWithin);
  co_return reply;
}

Status MountDaemon::Prepare() {
  if (config_.cpu_limit != 0 && !KeepToCpus(config_.cpu_limit))
    return Fail(Code::kInternal, "the kernel does not let this mount keep to cpu_limit CPUs: " +
                                     std::generic_category().message(errno));
  const Status place = PreparePlace();
  if (!place) return place;
  Result<Secret> secret = LoadOrCreateSecret();
  if (!secret) return Fail(secret.error());
  Result<std::shared_ptr<Trust>> trust = Trust::Open(TrustFolder(trust_dir_), proto::ROLE_CLIENT);
  if (!trust) return Fail(trust.error());
  const Status alone = *trust ? Status() : ExpectNoCluster(trust_dir_);
  if (!alone) return alone;
  trust_ = *trust;
  credentials_.trust = trust_;
  credentials_.role = proto::ROLE_CLIENT;
  credentials_.id = "mount:" + mountpoint_;
  credentials_.program = "forebay-mount " + std::string(Version());
  credentials_.secret = std::move(*secret);
  control_.Start();
  control_pool_ = NewPool(control_.At(0));
  leader_ = std::make_unique<Coordinators>(*control_pool_, config_.coordinator);
  refresher_ =
      std::make_unique<RingRefresher>(control_.At(0), *control_pool_, ring_, config_.coordinator);
  if (trust_) KeepTrust();
  PrepareJobs();
  return PrepareSource();
}

/// The connections and the ring are those of `control_`.
Status MountDaemon::PrepareSource() {
  listing_blocks_ = std::make_unique<BlockClient>(
      BlockClient::Parts{control_.At(0), *control_pool_, ring_, *refresher_, health_, listing_pace_,
                         listing_stats_},
      BlockClientOptions{
          .host_id = host_id_, .pauses = {}, .bandwidth = &bandwidth_, .goes_first = true});
  listing_metrics_ = services_.metrics.AddCollector([this](MetricSamples& samples) {
    ReportListings(samples);
    samples.Set(metric::kReceiveWaits, {}, bandwidth_.waited_seconds());
  });
  NamespaceOptions options;
  // The process changes to / when it goes into the background.
  options.state_dir = std::filesystem::absolute(config_.state_dir).string();
  options.coordinators = config_.coordinator;
  options.call_timeout = config_.failover_timeout;
  options.tell_waiting = [this](const std::string& sentence) {
    if (!serving_ && services_.tell_starter) services_.tell_starter(sentence);
  };
  const Status folder = MakePrivateFolder(options.state_dir);
  if (!folder) return folder;
  SnapshotFetcher::Parts parts{.pool = *control_pool_,
                               .offload = offload_,
                               .counts = listing_counts_,
                               .nodes = listing_blocks_.get(),
                               .has_nodes = [this] { return HasNodes(); },
                               .merge_bytes = config_.memory_limit,
                               .bandwidth = &bandwidth_};
  source_ = std::make_unique<NamespaceSource>(std::move(parts), std::move(options));
  return {};
}

/// The first listing is fetched before any node was asked for anything.
Task<bool> MountDaemon::HasNodes() {
  if (ring_.table()->nodes().empty()) {
    co_await refresher_->Refresh(Deadline::After(config_.failover_timeout));
  }
  co_return !ring_.table()->nodes().empty();
}

void MountDaemon::ReportListings(MetricSamples& samples) const {
  for (std::size_t i = 0; i < kSnapshotWays; ++i) {
    samples.Set(metric::kSnapshotFetches, {SnapshotWayName(static_cast<SnapshotWay>(i))},
                static_cast<double>(listing_counts_.fetches[i].load()));
  }
  samples.Set(metric::kSnapshotBytes, {"coordinator"},
              static_cast<double>(listing_counts_.coordinator_bytes.load()));
  samples.Set(metric::kSnapshotBytes, {"nodes"},
              static_cast<double>(listing_counts_.node_bytes.load()));
}

Status MountDaemon::StartThreads(const Uuid& cluster, const std::string& cluster_dir,
                                 bool from_disk) {
  const Status folder = MakePrivateFolder(cluster_dir);
  if (!folder) return folder;
  credentials_.cluster = cluster;
  const Status kept = ring_.KeepIn(cluster_dir + "/ring.bin");
  if (!kept && kept.error().code != Code::kNotFound) {
    spdlog::warn("{}; the ring is fetched again", kept.error().message);
  }
  ListenForOrders();
  if (!from_disk) refresher_->Notice(ring_.epoch() + 1);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    pools_.push_back(NewPool(threads_.At(i)));
  }
  copies_ = LocalCopies::OpenFor(config_);
  if (copies_) copies_->StartCopying(NewPool(copies_->context()));
  threads_.Start();
  serving_ = true;
  job_reporter_->Start();
  return {};
}

LinkMountShares MountDaemon::Shares() {
  const bool from_files = config_.local_reads == LocalReadsFrom::kFiles;
  return {config_,       host_id_,       control_.At(0),
          offload_,      threads_,       pools_,
          ring_,         *refresher_,    health_,
          pace_,         bandwidth_,     *jobs_,
          metrics_,      memory_,        from_files ? &segments_ : nullptr,
          local_socket_, kernel_inodes_, *keeper_,
          copies_.get()};
}

/// A mount without it works; programs cannot say what they will read.
void MountDaemon::ListenForOrders() {
  std::string path = config_.local_socket;
  if (path.empty()) {
    const Result<std::string> folder = RuntimeDir();
    if (folder) path = MountSocketPath(*folder, "orders", mountpoint_);
  }
  const Status listening = local_socket_.Listen(path, config_.allow_other, [this](pid_t process) {
    return JobOfProcess(*jobs_, config_.job_from, process);
  });
  if (!listening) spdlog::warn("{}", listening.error().message);
}

Status MountDaemon::MountOne(const std::string& link, const std::string& sub_path) {
  LinkMount::Place place;
  place.sub_path = sub_path;
  place.mountpoint = mountpoint_;
  place.device = device_;
  const bool goes_on = !inherited_.empty() && !inherited_.front().generations.empty();
  Result<MountedNamespace> found =
      goes_on ? inherited_.front().generations.back()
              : TakeShard(WaitFor(control_.At(0), services_.stopping,
                                  source_->Obtain(link, NamespaceDeadline())),
                          config_.shard, place.sub_path);
  if (!found) return Fail(found.error());
  if (!inherited_.empty() && !goes_on) inherited_.front().generations.push_back(*found);
  const Status started = StartThreads(found->cluster, found->cluster_dir, found->from_disk);
  if (!started) return started;
  one_ = inherited_.empty() ? std::make_unique<LinkMount>(Shares(), std::move(*found),
                                                          std::move(place), services_.request_stop)
                            : std::make_unique<LinkMount>(Shares(), std::move(inherited_.front()),
                                                          services_.request_stop);
  const Status mounted = one_->Start();
  if (!mounted) return mounted;
  follower_ = std::make_unique<LinkFollower>(
      LinkFollower::Parts{*one_, *source_, control_.At(0), services_.stopping});
  return {};
}

namespace {

/// What the process before this one showed; the coordinator is asked for news when it is served.
KnownLinks LinksOf(const std::vector<InheritedMount>& inherited) {
  KnownLinks known;
  for (const InheritedMount& mount : inherited) {
    known.cluster = UuidFromBytes(mount.mount.cluster());
    known.cluster_dir = mount.mount.cluster_dir();
    if (mount.mount.leaving() || mount.generations.empty()) continue;
    known.links.push_back(mount.generations.back().link);
  }
  return known;
}

}  // namespace

/// Every link, or with a name that set.
Status MountDaemon::MountAll(const std::string& set) {
  Result<KnownLinks> known = LinksOf(inherited_);
  if (inherited_.empty()) {
    known = WaitFor(control_.At(0), services_.stopping,
                    source_->WaitForLinks(set, NamespaceDeadline()));
  }
  if (!known) return Fail(known.error());
  const Status started = StartThreads(known->cluster, known->cluster_dir, known->from_disk);
  if (!started) return started;
  all_ =
      std::make_unique<AllLinks>(AllLinks::Parts{Shares(), *source_, control_.At(0),
                                                 services_.stopping, set, services_.request_stop},
                                 mountpoint_, device_);
  const Status mounted = all_->Start(std::move(*known), std::move(inherited_));
  if (mounted) spdlog::info("{} links are mounted below {}", all_->mounted(), mountpoint_);
  return mounted;
}

Status MountDaemon::Start() {
  const Status prepared = Prepare();
  if (!prepared) return prepared;
  const Status mounted = config_.source == kAllLinks ? MountAll("") : MountNamed();
  if (mounted) Introduce();
  return mounted;
}

/// From its next question on the coordinator lists it.
void MountDaemon::Introduce() {
  proto::MountSelf self;
  self.set_incarnation(job_reporter_->incarnation());
  self.set_host(HostName());
  self.set_mountpoint(mountpoint_);
  self.set_source(config_.source);
  asio::post(control_.At(0),
             [this, self = std::move(self)]() mutable { source_->Introduce(std::move(self)); });
}

/// LINK[/sub/path], SET or SET/PART[/sub/path].
Status MountDaemon::MountNamed() {
  const auto split = [](const std::string& path) {
    const std::size_t slash = path.find('/');
    const bool is_whole = slash == std::string::npos;
    return std::pair(path.substr(0, slash), is_whole ? "" : path.substr(slash + 1));
  };
  const auto [name, path] = split(config_.source);
  if (!inherited_.empty()) {
    // What an earlier process has found it to be.
    if (std::ranges::any_of(inherited_, IsTop)) return MountAll(name);
    const proto::KeptMount& mount = inherited_.front().mount;
    return MountOne(mount.link(), mount.sub_path());
  }
  const Result<KnownLinks> known =
      WaitFor(control_.At(0), services_.stopping, source_->WaitForLinks(name, NamespaceDeadline()));
  if (!known) return Fail(known.error());
  const auto is_set = [&](const proto::LinkState& link) { return link.spec().set() == name; };
  if (std::ranges::none_of(known->links, is_set)) return MountOne(name, path);
  const auto [part, below] = split(path);
  return part.empty() ? MountAll(name) : MountOne(LinkOfPart(name, part), below);
}

std::vector<std::pair<std::string, std::string>> MountDaemon::Addresses() const {
  return {{"link", config_.source}, {"mountpoint", mountpoint_}};
}

}  // namespace forebay
