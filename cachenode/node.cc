#include "cachenode/node.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/files.h"
#include "common/base/machine_id.h"
#include "common/model/system_link.h"
#include "common/wire/connection_limit.h"
#include "common/wire/rpc_metrics.h"

namespace forebay {
namespace {

// Disk work: enough threads to keep a few NVMe queues busy, and a queue that bounds what waits.
constexpr std::size_t kDiskThreads = 8;
constexpr std::size_t kDiskQueue = 4096;
constexpr std::size_t kMaxIdBytes = 63;
// The part of a stop that comes after the last reply: fills, the last report, the cache on its
// disk.
constexpr std::chrono::seconds kLastActs{3};
constexpr std::chrono::seconds kLeastClose{1};
constexpr std::chrono::seconds kLookAtKillsEvery{10};

Status CheckId(const std::string& id) {
  const bool good = !id.empty() && id.size() <= kMaxIdBytes && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (good) return {};
  return Fail(Code::kInvalid,
              "'" + id + "' is no node id: 1 to 63 letters, digits, '.', '_' or '-'");
}

std::string IdFile(const std::string& dir) { return dir + "/node_id"; }

/// Of the first directory that has one; kNotFound.
Result<std::string> StoredId(const std::vector<CacheDirOptions>& dirs) {
  Result<std::string> id = Fail(Code::kNotFound, "this node has no name yet");
  for (const CacheDirOptions& dir : dirs) {
    id = ReadWholeFile(IdFile(dir.path));
    if (id || id.error().code != Code::kNotFound) break;
  }
  return id;
}

Status KeepId(const std::string& dir, const std::string& id) {
  const Result<std::string> stored = ReadWholeFile(IdFile(dir));
  if (stored && *stored == id) return {};
  return WriteFileAtomically(IdFile(dir), id);
}

std::string Joined(const std::vector<std::string>& sentences, std::string_view between) {
  std::string text = sentences.front();
  for (std::size_t i = 1; i < sentences.size(); ++i) text += std::string(between) + sentences[i];
  return text;
}

}  // namespace

Node::Node(NodeOptions options, NodeOrigin origin, Metrics& metrics)
    : options_(std::move(options)),
      origin_options_(std::move(origin)),
      metrics_(metrics),
      offload_(kDiskThreads, kDiskQueue),
      origin_(
          origin_options_.store, changed_, [this] { heartbeat_->Hurry(); },
          [this](proto::ReadSnapshotRequest request, Deadline) {
            return heartbeat_->ReadListing(std::move(request));
          }),
      replies_(options_.memory_limit / 8 * 3),
      verify_pace_(options_.verify_bytes_per_s),
      copy_pace_(options_.copy_bytes_per_s),
      send_pace_(options_.max_bandwidth, "max_bandwidth of this node"),
      io_("node", options_.threads) {}

Result<std::unique_ptr<Node>> Node::Start(NodeOptions options, NodeOrigin origin, Metrics& metrics,
                                          std::stop_token stopping) {
  std::unique_ptr<Node> node(new Node(std::move(options), std::move(origin), metrics));
  Status status = node->ChooseDirectories();
  if (status) status = node->Identify();
  const bool restarted = !node->cluster_.cluster().IsZero();
  if (status) status = node->OpenStore(stopping);
  if (status) status = node->Serve(restarted);
  if (status) status = node->Join(restarted, stopping);
  if (!status) return Fail(status.error());
  node->Observe();
  return node;
}

Node::~Node() { Stop(Deadline::After(std::chrono::seconds(1))); }

/// Those of the configured directories that are what they were, or new. Without the others the node
/// starts; without any it does not.
Status Node::ChooseDirectories() {
  Result<KnownDirectories> known = KnownDirectories::Open(options_.state_dir);
  if (!known) return Fail(std::move(known.error()));
  known_ = std::move(*known);
  for (const std::string& path : options_.accept_new_disk) {
    Status accepted = known_->Accept(path);
    if (!accepted) return accepted;
  }
  std::vector<std::string> objections;
  for (const CacheDirOptions& dir : options_.store.dirs) {
    Result<std::optional<std::string>> objection = known_->Objection(dir.path);
    if (!objection) return Fail(std::move(objection.error()));
    if (objection->has_value()) {
      objections.push_back(std::move(**objection));
      missing_.push_back(dir.path);
    } else {
      dirs_.push_back(dir);
    }
  }
  if (dirs_.empty() && !objections.empty())
    return Fail(Code::kInvalid, Joined(objections, ". Likewise "));
  for (const std::string& objection : objections)
    spdlog::error("this node starts without a disk: {}", objection);
  return {};
}

// Who we are and what we knew when we stopped: small files in all cache directories, so that it
// outlives each disk.
Status Node::Identify() {
  const std::string& home = dirs_.front().path;
  Status made = MakePrivateFolder(home);
  if (!made) return made;
  Result<std::string> stored = StoredId(dirs_);
  if (!stored && stored.error().code != Code::kNotFound) return Fail(stored.error());
  id_ = options_.trust              ? options_.trust->self().id
        : !options_.node_id.empty() ? options_.node_id
        : stored                    ? *stored
                                    : "n-" + Uuid::Random().ToString().substr(0, 8);
  Status good = CheckId(id_);
  if (!good) return good;
  std::vector<std::string> files;
  files.reserve(dirs_.size());
  for (const CacheDirOptions& dir : dirs_) files.push_back(dir.path + "/cluster_state");
  Status known = cluster_.KeepIn(std::move(files));
  if (!known && known.error().code != Code::kCorrupt) return known;
  if (!known) spdlog::warn("{}; the coordinator is asked again", known.error().message);
  Status trusted = CheckTrust();
  if (!trusted) return trusted;
  local_socket_ = options_.local_socket;
  if (!local_socket_.empty()) return {};
  Result<std::string> runtime = RuntimeDir();
  if (!runtime) return Fail(runtime.error());
  local_socket_ = *runtime + "/node-" + id_ + ".sock";
  return {};
}

/// The store has opened them, and they are ours alone: nothing is written to what another node
/// uses.
Status Node::RememberDirectories() {
  for (const CacheDirOptions& dir : dirs_) {
    Status kept = known_->Remember(dir.path);
    if (kept) kept = KeepId(dir.path, id_);
    if (!kept) return kept;
  }
  last_run_ = std::make_unique<LastRun>(dirs_.front().path + "/running", "/proc");
  const Result<RunEnd> last_end = last_run_->Begin();
  // A full disk is no reason not to start.
  if (!last_end) spdlog::warn("{}", last_end.error().message);
  last_end_ = last_end.value_or(RunEnd::kStopped);
  if (last_end_ == RunEnd::kOutOfMemory) {
    spdlog::warn(
        "this node was probably killed by the kernel for want of memory: give it less "
        "with --memory-limit, now {} bytes, or the machine or its control group more",
        options_.memory_limit);
  } else if (last_end_ == RunEnd::kKilled) {
    spdlog::warn(
        "this node ended last without being stopped: it crashed or was killed, or the "
        "machine went down");
  }
  return {};
}

Status Node::CheckTrust() const {
  if (!options_.trust) return {};
  const Identity& self = options_.trust->self();
  if (!options_.node_id.empty() && options_.node_id != self.id) {
    return Fail(Code::kInvalid, "the certificate of this machine is of node '" + self.id +
                                    "', and --node-id says '" + options_.node_id +
                                    "': leave that out, or join with --id " + options_.node_id);
  }
  const Uuid cached = cluster_.cluster();
  if (cached.IsZero() || cached == self.cluster) return {};
  return Fail(Code::kInvalid, options_.store.dirs.front().path + " caches for cluster " +
                                  cached.ToString() + ", and the certificate is of cluster " +
                                  self.cluster.ToString() +
                                  ": name another --cache-dir, or the right --trust-dir");
}

// With the cluster, as soon as it is known.
Credentials Node::OwnCredentials() const {
  Credentials credentials;
  credentials.role = proto::ROLE_NODE;
  credentials.id = id_;
  credentials.program = options_.program;
  credentials.cluster = cluster_.cluster();
  credentials.secret = options_.secret;
  credentials.trust = options_.trust;
  return credentials;
}

Status Node::OpenStore(std::stop_token stopping) {
  HeartbeatOptions options;
  options.coordinators = options_.coordinators;
  options.credentials = OwnCredentials();
  options.trust = options_.trust;
  heartbeat_ =
      std::make_unique<Heartbeat>(std::move(options), cluster_, counters_, changed_, offload_);
  const bool is_new = cluster_.cluster().IsZero();
  if (is_new) {
    Result<Uuid> cluster = heartbeat_->LearnCluster(stopping);
    if (!cluster) return Fail(cluster.error());
    cluster_.SetCluster(*cluster);
  }
  BlockStoreOptions store_options = options_.store;
  store_options.dirs = dirs_;
  store_options.rules = Rules();
  store_options.on_loss = [this](const BlockId& block, BlockLoss loss) {
    history_.NoteLoss(block, loss);
  };
  // The coordinator is to know before the next who asks it for room.
  store_options.on_room = [this] { heartbeat_->Hurry(); };
  Result<std::unique_ptr<BlockStore>> store =
      BlockStore::Open(std::move(store_options), cluster_.cluster(), offload_);
  if (!store) return Fail(store.error());
  store_ = std::move(*store);
  if (is_new) {
    Status kept = cluster_.Keep();
    if (!kept) return kept;
  }
  spdlog::info("{} cached blocks were recovered", store_->BlockCount());
  return RememberDirectories();
}

Status Node::Serve(bool restarted) {
  PeerSourceOptions peers;
  peers.self = id_;
  peers.credentials = OwnCredentials();
  peers.zone = options_.zone;
  peers_ = std::make_unique<PeerSource>(std::move(peers), cluster_);
  FillerOptions fills = options_.filler;
  fills.memory_limit = options_.memory_limit / 8 * 5;  // with what is recent
  fills.recent_bytes = options_.memory_limit / 4;
  filler_ = std::make_unique<Filler>(fills, io_, *store_, *peers_, origin_, counters_, history_);
  CopySenderOptions copies;
  copies.self = id_;
  copies.credentials = OwnCredentials();
  copies_ = std::make_unique<CopySender>(std::move(copies), cluster_);
  pins_ = std::make_unique<PinReleaser>(
      PinReleaserOptions{.self = id_, .credentials = OwnCredentials(), .rules = options_.pins},
      cluster_, *store_);
  filler_->NotifyKept(
      [this](const ColdBlock& cold, bool from_peer) { copies_->Add(cold, from_peer); });
  filler_->brakes().SetBandwidth(static_cast<double>(options_.max_bandwidth));
  filler_->brakes().Restore(cluster_.leases());
  filler_->brakes().OnNews([this] { heartbeat_->Hurry(); });
  cluster_.OnChange([this] { ApplyDecisions(); });
  ApplyDecisions();
  reader_ = std::make_unique<BlockReader>(*store_, *filler_, replies_, counters_, history_);
  batches_ = std::make_unique<BatchFiller>(*store_, *filler_);
  Service::Parts parts{.self = id_,
                       .cluster = cluster_,
                       .reader = *reader_,
                       .filler = *filler_,
                       .batches = *batches_,
                       .store = *store_,
                       .history = history_,
                       .verify_pace = verify_pace_,
                       .copy_pace = copy_pace_,
                       .send_pace = send_pace_,
                       .hot_reads = hot_reads_,
                       .metrics = metrics_,
                       .refresh_links = [this] { heartbeat_->Hurry(); }};
  service_ = std::make_unique<Service>(std::move(parts));
  RpcServerOptions options;
  options.listen = {options_.listen, "unix:" + local_socket_};
  options.reach = options_.reach;
  options.credentials = OwnCredentials();
  options.max_connections = ConnectionsOfProcess(SegmentDescriptors());
  server_ = std::make_unique<RpcServer>(
      io_, std::move(options), service_->Methods(), [this] { return cluster_.ring_epoch(); },
      [this](std::uint64_t epoch) { heartbeat_->NoticeEpoch(epoch); });
  disks_ = std::make_unique<DiskKeeper>(*store_, options_.disks);
  disks_->Start(io_);
  Spawn(io_.Next(), WatchMemoryKills());
  io_.Start();
  peers_->Start(restarted);
  copies_->Start();
  pins_->Start();
  return server_->Start();
}

/// What the coordinator decided, now or before our last stop.
void Node::ApplyDecisions() {
  filler_->brakes().budget().Set(cluster_.fill_limits());
  if (store_->SetRules(Rules())) Spawn(io_.At(0), Trim());
}

std::vector<LinkRule> Node::Rules() const {
  std::uint64_t capacity = 0;
  for (const CacheDirOptions& dir : dirs_) capacity += dir.capacity_bytes;
  return RulesOf(cluster_.AllLinks(), *cluster_.ring(), id_, capacity);
}

/// What the kernel kills while this node lives is somebody else.
Task<void> Node::WatchMemoryKills() {
  for (bool on = true; on;) {
    on = co_await SleepFor(kLookAtKillsEvery);
    auto look = [this] { return last_run_->Look(); };
    // A disk that fails says so elsewhere.
    (void)co_await offload_.Run(std::move(look));
  }
}

/// In the background: a link has more than its quota.
Task<void> Node::Trim() {
  const Result<Evicted> trimmed = co_await store_->TrimToQuotas();
  if (!trimmed) spdlog::warn("blocks above a quota stay: {}", trimmed.error().message);
  if (trimmed && trimmed->blocks > 0)
    spdlog::info("{} blocks above the quota of their link are evicted", trimmed->blocks);
}

void Node::Resize(const std::vector<CacheDirOptions>& dirs) {
  const std::vector<DiskUsage> disks = store_->Disks();
  for (const CacheDirOptions& dir : dirs) {
    const auto disk = std::ranges::find(disks, dir.path, &DiskUsage::path);
    if (disk != disks.end()) {
      const auto number = static_cast<std::size_t>(disk - disks.begin());
      Spawn(io_.At(0), ResizeDisk(number, dir.capacity_bytes));
    } else if (std::ranges::find(missing_, dir.path) == missing_.end()) {
      spdlog::warn("cache directory {} is new: it is used when this node is started again",
                   dir.path);
    }
  }
  for (const DiskUsage& disk : disks) {
    if (std::ranges::find(dirs, disk.path, &CacheDirOptions::path) == dirs.end()) {
      spdlog::warn(
          "cache directory {} is not in the configuration any more: it is used until this node is "
          "started again",
          disk.path);
    }
  }
}

Task<void> Node::ResizeDisk(std::size_t disk, std::uint64_t capacity_bytes) {
  const Status resized = co_await store_->Resize(disk, capacity_bytes);
  if (!resized) spdlog::error("{}", resized.error().message);
}

Status Node::Join(bool restarted, std::stop_token stopping) {
  NodeInfo self;
  self.id = id_;
  self.address = options_.advertise.empty() ? address() : options_.advertise;
  self.local_socket = local_socket_;
  self.host_id = MachineId();
  self.zone = options_.zone;
  NodeFacts facts;
  facts.missing_dirs = missing_;
  facts.last_end = last_end_;
  facts.s3 = &origin_options_.store;
  facts.unserved = &filler_->unserved();
  heartbeat_->Start(std::move(self), *store_, filler_->brakes(), std::move(facts));
  // A node that knows its cluster serves at once, coordinator or not.
  if (restarted) return {};
  return heartbeat_->WaitUntilRegistered(stopping);
}

void Node::ReportDisks(MetricSamples& samples) const {
  for (const DiskUsage& disk : store_->Disks()) {
    samples.Set(metric::kCacheUsedBytes, {disk.path}, static_cast<double>(disk.used_bytes));
    samples.Set(metric::kCacheCapacityBytes, {disk.path}, static_cast<double>(disk.capacity_bytes));
    const DiskErrors& errors = disk.errors;
    samples.Set(metric::kDiskErrors, {disk.path, "read"}, static_cast<double>(errors.read));
    samples.Set(metric::kDiskErrors, {disk.path, "write"}, static_cast<double>(errors.write));
    samples.Set(metric::kDiskErrors, {disk.path, "full"}, static_cast<double>(errors.full));
    samples.Set(metric::kDiskErrors, {disk.path, "hang"}, static_cast<double>(errors.hang));
    samples.Set(metric::kDiskErrors, {disk.path, "gone"}, static_cast<double>(errors.gone));
    samples.Set(metric::kDiskInService, {disk.path}, disk.state == DiskState::kOk ? 1.0 : 0.0);
    samples.Set(metric::kScrubbedBytes, {disk.path}, static_cast<double>(disk.scrubbed_bytes));
  }
  for (const std::string& path : missing_) samples.Set(metric::kDiskInService, {path}, 0.0);
}

void Node::ReportLinks(MetricSamples& samples) const {
  std::uint64_t listing_bytes = 0;
  std::uint64_t listing_bytes_of_nodes = 0;
  for (const auto& [id, count] : counters_.Links()) {
    const std::shared_ptr<const LinkSpec> link = cluster_.FindLink(id);
    if (link && IsSystemLink(*link)) {
      listing_bytes += count->s3_bytes.load();
      listing_bytes_of_nodes += count->peer_bytes.load();
      continue;
    }
    const std::string name = link ? link->name : id.ToString();
    samples.Set(metric::kReadBytes, {name, "local"}, static_cast<double>(count->kept_bytes.load()));
    samples.Set(metric::kReadBytes, {name, "peer"}, static_cast<double>(count->peer_bytes.load()));
    samples.Set(metric::kReadBytes, {name, "s3"}, static_cast<double>(count->fill_bytes.load()));
    samples.Set(metric::kCrossZoneBytes, {name},
                static_cast<double>(count->cross_zone_bytes.load()));
  }
  samples.Set(metric::kSnapshotBytes, {"coordinator"}, static_cast<double>(listing_bytes));
  samples.Set(metric::kSnapshotBytes, {"nodes"}, static_cast<double>(listing_bytes_of_nodes));
}

void Node::Observe() {
  registration_ = metrics_.AddCollector([this](MetricSamples& samples) {
    samples.Set(metric::kFillsInFlight, {}, static_cast<double>(filler_->in_flight()));
    samples.Set(metric::kFillsLimit, {}, static_cast<double>(filler_->limit_in_background()));
    samples.Set(metric::kS3BudgetRatio, {}, filler_->brakes().budget().UseRatio(Clock::now()));
    for (const S3Brakes::Use& use : filler_->brakes().Uses()) {
      const std::shared_ptr<const LinkSpec> link = cluster_.FindLink(use.link);
      if (!link || IsSystemLink(*link)) continue;
      samples.Set(metric::kS3RequestLimit, {link->name}, use.limit);
      samples.Set(metric::kS3Throttled, {link->name}, static_cast<double>(use.throttled));
    }
    samples.Set(metric::kIndexEntries, {}, static_cast<double>(store_->BlockCount()));
    samples.Set(metric::kBlocksSetAside, {}, static_cast<double>(store_->SetAsideCount()));
    ReportDisks(samples);
    ReportRpc(server_->counters(), samples);
    samples.Set(metric::kRpcRefused, {"coordinator"},
                static_cast<double>(service_->refused_coordinators()));
    samples.Set(metric::kRpcRefused, {"memory"}, static_cast<double>(replies_.refused()));
    ReportTrust(options_.trust.get(), samples);
    const BlockStore::Counters& counters = store_->counters();
    samples.Set(metric::kEvictedBytes, {"capacity"},
                static_cast<double>(counters.evicted_bytes.load()));
    samples.Set(metric::kEvictedBytes, {"quota"},
                static_cast<double>(counters.trimmed_bytes.load()));
    samples.Set(metric::kEvictedBytes, {"released"},
                static_cast<double>(counters.released_bytes.load()));
    samples.Set(metric::kStoreReads, {"memory"},
                static_cast<double>(counters.reads_in_place.load()));
    samples.Set(metric::kStoreReads, {"disk"},
                static_cast<double>(counters.reads_elsewhere.load()));
    samples.Set(metric::kReadsSentOn, {}, static_cast<double>(hot_reads_.sent_on()));
    samples.Set(metric::kS3SecondGets, {}, static_cast<double>(filler_->second_gets()));
    samples.Set(metric::kS3StandInFills, {}, static_cast<double>(filler_->stand_in_fills()));
    samples.Set(metric::kCopiedBytes, {}, static_cast<double>(filler_->copied_bytes()));
    samples.Set(metric::kCopiesWaiting, {}, static_cast<double>(copies_->waiting()));
    samples.Set(metric::kCopiesDropped, {}, static_cast<double>(copies_->dropped()));
    samples.Set(metric::kSendWaits, {}, send_pace_.waited_seconds());
    samples.Set(metric::kStoreReads, {"place"}, static_cast<double>(counters.places.load()));
    samples.Set(metric::kStoreReads, {"remembered"}, static_cast<double>(counters.uses.load()));
    samples.Set(metric::kStoreLockWaits, {}, static_cast<double>(counters.lock_waits.load()));
    samples.Set(metric::kReadsNotNoted, {}, static_cast<double>(counters.reads_not_noted.load()));
    samples.Set(metric::kChecksumFailures, {"disk"},
                static_cast<double>(counters.checksum_failures.load()));
    ReportLinks(samples);
  });
}

void Node::Stop(Deadline drain) {
  if (stopped_) return;
  stopped_ = true;
  registration_ = {};
  if (server_) server_->Stop(Deadline(drain.at() - kLastActs));
  // Fills end before the last report, so that their GETs are in it.
  if (origin_options_.interrupt) origin_options_.interrupt();
  if (peers_) peers_->Interrupt();
  if (copies_) copies_->Interrupt();
  if (pins_) pins_->Interrupt();
  if (filler_ && !filler_->Stop(Deadline::After(kLastActs / 3)))
    spdlog::warn("{} blocks are still being stored and are given up", filler_->in_flight());
  if (heartbeat_) heartbeat_->Stop(Deadline::After(kLastActs / 3));
  if (peers_) peers_->Stop();
  if (copies_) copies_->Stop();
  if (pins_) pins_->Stop();
  // From here on nobody calls the store.
  io_.Stop();
  if (store_) {
    const Status closed = store_->Close(Deadline(std::max(drain.at(), Clock::now() + kLeastClose)));
    hangs_on_ = !closed && closed.error().code == Code::kTimeout;
    if (!closed) spdlog::error("the cache may lose its newest blocks: {}", closed.error().message);
  }
  // What saves the node's own files may hang on the same disk.
  if (hangs_on_) return;
  offload_.Stop();
  const Status ended = last_run_ ? last_run_->End() : Status();
  if (!ended) spdlog::warn("{}", ended.error().message);
}

}  // namespace forebay
