#include "fuse-client/mount.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "common/base/files.h"
#include "common/base/machine_id.h"
#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/config/sections.h"
#include "fuse-client/job_text.h"
#include "fuse-client/mount_args.h"
#include "fuse-client/mount_metrics.h"
#include "fuse-client/mountpoint.h"

namespace forebay {

namespace {

/// How long a mount that goes into the background waits for its namespace: whoever started it waits
/// too, at boot perhaps.
constexpr Duration kBackgroundPatience = std::chrono::seconds(30);

/// The kernel's 128 KiB make eight times as many READs and cost half as much CPU again; more than
/// one largest READ gains nothing, and a page fault in a mapped file reads as much around it.
constexpr unsigned kReadAheadKb = 1024;

/// Between two looks at something that has no event to wait for.
constexpr Duration kPollEvery = std::chrono::milliseconds(20);

/// Between two tries to unmount while somebody is using the mount.
constexpr Duration kUnmountEvery = std::chrono::milliseconds(200);

/// How long the unmount waits for a coordinator to take the last report of jobs.
constexpr Duration kLastReport = std::chrono::seconds(1);

/// What Stop keeps of its time for ending the workers.
constexpr Duration kEndingTime = std::chrono::milliseconds(1500);

}  // namespace

MountDaemon::MountDaemon(const MountConfig& config, ProgramServices& services)
    : config_(config),
      services_(services),
      link_name_(config.source.substr(0, config.source.find('/'))),
      host_id_(MachineId()),
      control_("mount-ctl", 1),
      threads_("mount-io", config.threads),
      stats_(config.threads) {
  const std::size_t slash = config.source.find('/');
  if (slash != std::string::npos) sub_path_ = config.source.substr(slash + 1);
}

MountDaemon::~MountDaemon() = default;

ClientPoolOptions MountDaemon::PoolOptions() const {
  ClientPoolOptions options;
  options.credentials = credentials_;
  options.silence = config_.failover_timeout;
  options.connect_timeout = config_.failover_timeout;
  return options;
}

// Runs `task` on the control thread and waits for it, unless the program is told to stop: then the
// task is left to end with its context.
template <typename T>
Result<T> MountDaemon::RunOnControl(Task<Result<T>> task) {
  std::future<Result<T>> result = asio::co_spawn(control_.At(0), std::move(task), asio::use_future);
  while (result.wait_for(kPollEvery) != std::future_status::ready) {
    if (services_.stopping.stop_requested()) {
      return Fail(Code::kUnavailable, "stopped before the mount was ready");
    }
  }
  return result.get();
}

Status MountDaemon::Prepare() {
  const Status usable = CheckMountpoint(config_.mountpoint);
  if (!usable) return usable;
  Result<std::string> absolute = AbsoluteMountpoint(config_.mountpoint);
  if (!absolute) return Fail(absolute.error());
  mountpoint_ = std::move(*absolute);
  Result<std::string> secret = LoadOrCreateSecret();
  if (!secret) return Fail(secret.error());
  credentials_.role = proto::ROLE_CLIENT;
  credentials_.id = "mount:" + mountpoint_;
  credentials_.program = "forebay-mount " + std::string(Version());
  credentials_.secret = std::move(*secret);
  control_.Start();
  control_pool_ = std::make_unique<ClientPool>(
      control_.At(0), PoolOptions(), [this] { return ring_.epoch(); },
      [this](std::uint64_t epoch) { refresher_->Notice(epoch); });
  refresher_ =
      std::make_unique<RingRefresher>(control_.At(0), *control_pool_, ring_, config_.coordinator);
  jobs_ =
      std::make_unique<JobTable>(config_.job_id.empty() ? OwnJobId(mountpoint_) : config_.job_id);
  job_reporter_ =
      std::make_unique<JobReporter>(control_.At(0), *control_pool_, *jobs_, config_.coordinator);
  return {};
}

Status MountDaemon::ObtainNamespace() {
  NamespaceOptions options;
  // The process changes to / when it goes into the background.
  options.state_dir = std::filesystem::absolute(config_.state_dir).string();
  options.coordinators = config_.coordinator;
  options.call_timeout = config_.failover_timeout;
  const Status folder = MakePrivateFolder(options.state_dir);
  if (!folder) return folder;
  source_ = std::make_unique<NamespaceSource>(*control_pool_, std::move(options));
  const Deadline deadline =
      Deadline::After(config_.foreground ? Duration(kForever) : kBackgroundPatience);
  Result<MountedNamespace> found = RunOnControl(source_->Obtain(link_name_, deadline));
  if (!found) return Fail(found.error());
  namespace_ = std::move(*found);
  credentials_.cluster = namespace_.cluster;

  const Status kept = ring_.KeepIn(namespace_.cluster_dir + "/ring.bin");
  if (!kept && kept.error().code != Code::kNotFound) {
    spdlog::warn("{}; the ring is fetched again", kept.error().message);
  }
  if (!namespace_.from_disk) refresher_->Notice(ring_.epoch() + 1);
  return {};
}

std::string MountDaemon::RenderConfig() const {
  const Snapshot& snapshot = *namespace_.snapshot;
  const SnapshotDigest digest{namespace_.link.generation().digest_high(),
                              namespace_.link.generation().digest_low()};
  boost::json::object all;
  all["schema_version"] = 1;
  all["link"] = link_name_;
  all["source"] =
      "s3://" + std::string(snapshot.source().bucket) + "/" + std::string(snapshot.source().prefix);
  all["sub_path"] = sub_path_;
  all["cluster"] = namespace_.cluster.ToString();
  all["generation"] = snapshot.id().generation;
  all["generation_age_seconds"] =
      UnixSeconds() - static_cast<std::int64_t>(snapshot.listed_unix_s());
  all["digest"] = fmt::format("{:016x}{:016x}", digest.high, digest.low);
  all["objects"] = snapshot.totals().objects;
  all["bytes"] = snapshot.totals().bytes;
  all["hidden_keys"] = snapshot.totals().hidden_keys;
  all["block_bytes"] = snapshot.block_bytes();
  all["ring_epoch"] = ring_.epoch();
  all["namespace_from_disk"] = namespace_.from_disk;
  all["kernel_features"] = session_ ? session_->Features() : "";
  all["threads"] = config_.threads;
  all["version"] = Version();
  return boost::json::serialize(all) + "\n";
}

Status MountDaemon::MakeFileSystem() {
  std::vector<ControlFiles::File> control;
  control.push_back({"config", [this] { return RenderConfig(); }});
  control.push_back({"errors", [this] { return errors_.Render(); }});
  control.push_back({"stats", [this] { return stats_.ToJson(JobsJson(*jobs_)); }});
  FileSystemOptions options;
  options.uid = config_.uid;
  options.gid = config_.gid;
  options.file_mode = config_.file_mode;
  options.dir_mode = config_.dir_mode;
  Result<std::unique_ptr<FileSystem>> files = FileSystem::Make(
      namespace_.snapshot, options, sub_path_, std::make_unique<ControlFiles>(std::move(control)));
  if (!files) return Fail(files.error());
  files_ = std::move(*files);
  return {};
}

WorkerOptions MountDaemon::OptionsOfWorkers() const {
  WorkerOptions options;
  options.pool = PoolOptions();
  options.blocks.host_id = host_id_;
  options.reader.link = namespace_.snapshot->id().link;
  options.reader.block_bytes = namespace_.snapshot->block_bytes();
  options.reader.patience = config_.s3_timeout;
  options.job_from = config_.job_from;
  return options;
}

Status MountDaemon::MountAndServe() {
  FuseSessionOptions options;
  options.source = config_.source;
  options.mountpoint = mountpoint_;
  options.allow_other = config_.allow_other;
  Result<std::unique_ptr<FuseSession>> session = FuseSession::Mount(options, *files_);
  if (!session) return Fail(session.error());
  session_ = std::move(*session);
  jobs_->SetLink(namespace_.snapshot->id().link,
                 LinkFacts{.name = link_name_,
                           .generation = namespace_.snapshot->id().generation,
                           .blocks = CountBlocks(*namespace_.snapshot)});
  const WorkerShares shares{*session_, *files_,  ring_,   *refresher_,
                            health_,   streams_, errors_, *jobs_};
  const WorkerOptions worker_options = OptionsOfWorkers();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    workers_.push_back(
        std::make_unique<Worker>(threads_.At(i), shares, stats_.Worker(i), worker_options, [this] {
          ended_ = true;
          services_.request_stop();
        }));
    const Status started = workers_.back()->Start();
    if (!started) return started;
  }
  threads_.Start();
  serving_ = true;
  job_reporter_->Start();
  return ProbeMount(mountpoint_, kReadAheadKb);
}

Status MountDaemon::Start() {
  Status status = Prepare();
  if (status) status = ObtainNamespace();
  if (status) status = MakeFileSystem();
  if (status) status = MountAndServe();
  if (!status) return status;
  metrics_ = ReportMountStats(services_.metrics, stats_, link_name_);
  spdlog::info("{} (generation {}, {} objects) is mounted on {}", config_.source,
               namespace_.snapshot->id().generation, namespace_.snapshot->totals().objects,
               mountpoint_);
  return {};
}

std::vector<std::pair<std::string, std::string>> MountDaemon::Addresses() const {
  return {{"link", config_.source}, {"mountpoint", mountpoint_}};
}

void MountDaemon::LeaveMountpoint(Deadline drain) {
  const Deadline last_try(drain.at() - kEndingTime);
  bool said_so = false;
  while (!ended_) {
    const Unmounted result = TryUnmount(mountpoint_);
    if (result == Unmounted::kDone) return;
    if (result == Unmounted::kFailed || last_try.Expired()) {
      spdlog::warn(
          "{} is still in use: it is taken out of the tree, and what programs have open "
          "there fails from now on",
          mountpoint_);
      DetachLazily(mountpoint_);
      return;
    }
    if (!said_so) spdlog::info("{} is in use; waiting until it can be unmounted", mountpoint_);
    said_so = true;
    std::this_thread::sleep_for(kUnmountEvery);
  }
}

void MountDaemon::EndWorkers(Deadline drain) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    asio::post(threads_.At(i), [worker = workers_[i].get()] { worker->BeginStop(); });
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    while (!drain.Expired()) {
      std::promise<bool> idle;
      asio::post(threads_.At(i), [&] { idle.set_value(workers_[i]->Idle()); });
      if (idle.get_future().get()) break;
      std::this_thread::sleep_for(kPollEvery);
    }
  }
  threads_.Stop();
}

void MountDaemon::Stop(Deadline drain) {
  metrics_ = Metrics::Registration();
  if (session_) LeaveMountpoint(drain);
  // Without the workers' threads nothing was ever under way.
  if (serving_) EndWorkers(drain);
  if (serving_) {
    LogJobs(*jobs_);
    job_reporter_->FinishFrom(Deadline::After(kLastReport));
  }
  if (control_pool_) {
    std::promise<void> closed;
    asio::post(control_.At(0), [&] {
      control_pool_->Close();
      closed.set_value();
    });
    closed.get_future().get();
  }
  control_.Stop();
  workers_.clear();
  session_.reset();
  if (!serving_) return;
  const StatsSnapshot sum = stats_.Sum();
  spdlog::info("{} reads, {} bytes from local nodes, {} from peers, {} from S3, {} failed reads",
               sum.Reads(), sum.read_bytes[static_cast<std::size_t>(Tier::kLocal)],
               sum.read_bytes[static_cast<std::size_t>(Tier::kPeer)],
               sum.read_bytes[static_cast<std::size_t>(Tier::kS3)], errors_.size());
}

int RunMount(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  const bool as_helper = std::filesystem::path(arguments.at(0)).filename() == "mount.forebay";
  if (as_helper) {
    Result<MountArguments> translated =
        TranslateMountArguments({arguments.begin() + 1, arguments.end()});
    if (!translated) {
      std::fprintf(stderr, "mount.forebay: %s\n", translated.error().message.c_str());
      return 2;
    }
    for (const std::string& warning : translated->warnings) {
      std::fprintf(stderr, "mount.forebay: %s\n", warning.c_str());
    }
    if (translated->fake) translated->arguments.push_back("--check-config");
    arguments.resize(1);
    arguments.insert(arguments.end(), translated->arguments.begin(), translated->arguments.end());
  }
  std::vector<char*> words;
  words.reserve(arguments.size());
  for (std::string& word : arguments) words.push_back(word.data());

  MountConfig mount;
  LogConfig log;
  AllConfigs all;
  ProgramSpec spec{.name = "forebay-mount",
                   .summary = "Shows a link as a read-only directory, out of the cache nodes."};
  spec.own.push_back(MountSection(mount));
  spec.own.push_back(LogSection(log));
  spec.others = all.SectionsBeside(spec.own);
  spec.log = &log;
  spec.metrics_listen = &mount.metrics_listen;
  spec.foreground = &mount.foreground;
  spec.make = [&mount](ProgramServices& services) {
    return std::make_unique<MountDaemon>(mount, services);
  };
  return RunProgram(spec, static_cast<int>(words.size()), words.data());
}

}  // namespace forebay
