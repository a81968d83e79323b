#include "coordinator/coordinator.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <map>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/wire/connection_limit.h"
#include "common/wire/rpc_metrics.h"
#include "coordinator/fence_claim.h"
#include "coordinator/preload_records.h"
#include "coordinator/rocksdb_state_store.h"
#include "coordinator/state_format.h"

namespace forebay {
namespace {

constexpr const char* kClusterKey = "cluster/uuid";

/// RocksDB, snapshot files and their sorting: a listing's end may take seconds, so more than one.
constexpr std::size_t kOffloadThreads = 4;
constexpr std::size_t kOffloadQueue = 4096;
/// A core parses more than a million keys a second: more than the fastest S3 lists.
constexpr std::size_t kListingThreads = 2;

constexpr std::chrono::seconds kDrain{3};  ///< Of 10 s that SIGTERM allows.
constexpr std::chrono::seconds kLinkerPatience{3};
constexpr std::chrono::seconds kPreloadPatience{1};
constexpr std::chrono::seconds kClosePatience{1};
constexpr std::uint64_t kSaveEverySeconds = 5;

std::string_view StateName(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kOut:
      return "out";
  }
  return "unknown";
}

}  // namespace

Credentials CoordinatorCredentials(const CoordinatorOptions& options, const Uuid& cluster,
                                   const Fence& claim) {
  Credentials credentials;
  credentials.role = proto::ROLE_COORDINATOR;
  credentials.id = "coordinator";
  credentials.program = options.program;
  credentials.cluster = cluster;
  credentials.secret = options.secret;
  credentials.trust = options.trust;
  credentials.fence = claim;
  return credentials;
}

Result<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options,
                                                        CoordinatorOrigin origin) {
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(options), std::move(origin)));
  Status loaded = coordinator->Load();
  if (!loaded) return Fail(loaded.error());
  Status serving = coordinator->Serve();
  if (!serving) return Fail(serving.error());
  return coordinator;
}

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorOrigin origin)
    : options_(std::move(options)),
      origin_(std::move(origin)),
      offload_(kOffloadThreads, kOffloadQueue),
      replies_(options_.reply_bytes),
      // One event loop: a thousand heartbeats a second keep it a few per cent busy.
      io_("coord", 1),
      listing_("listing", kListingThreads) {}

Coordinator::~Coordinator() { Stop(); }

Status Coordinator::Load() {
  if (options_.leadership) {
    store_ = options_.leadership->store;
  } else {
    Result<std::unique_ptr<RocksDbStateStore>> store = RocksDbStateStore::Open(options_.state_dir);
    if (!store) return Fail(store.error());
    store_ = std::move(*store);
  }
  // Before the claim: the coordinator that reads this state goes on.
  Result<std::optional<std::string>> format = store_->Get(kStateFormatKey);
  if (!format) return Fail(format.error());
  Status readable = CheckStateFormat(*format, "the coordinator's state");
  if (!readable) return readable;
  Result<std::uint64_t> fence = store_->Claim();
  if (!fence) return Fail(fence.error());
  fence_ = *fence;
  Result<std::optional<Fence>> outdated = OutdatedFence(*store_);
  if (!outdated) return Fail(outdated.error());
  is_marked_ = outdated->has_value();
  claim_ = outdated->value_or(Fence{.epoch = fence_, .claim = Uuid::Random()});
  if (is_marked_) {
    spdlog::error(
        "nodes have heard of a newer coordinator than this one: its state is an old copy, and it "
        "keeps fencing epoch {} until a backup is restored (docs/DEPLOY.md, Backups)",
        claim_.epoch);
  }
  Status cluster = LoadCluster();
  if (!cluster) return cluster;

  membership_ = std::make_unique<ClusterMembers>(*store_, fence_, offload_, options_.membership);
  links_ = std::make_unique<LinkRegistry>(*store_, fence_, tasks_);
  budget_ = std::make_unique<FillBudget>(*store_, fence_);
  pins_ = std::make_unique<PinBook>(*store_, *links_);
  stats_ = std::make_unique<ClusterStats>(*store_, fence_, offload_);
  index_ = std::make_unique<NamespaceIndex>(options_.state_dir + "/snapshots");
  changed_ = std::make_unique<ChangedFiles>(
      ChangedFiles::Parts{.store = *store_,
                          .fence = fence_,
                          .links = *links_,
                          .index = *index_,
                          .offload = offload_,
                          .refresh = [this](LinkSpec link, std::vector<std::string> paths) {
                            return ListAgain(std::move(link), JoinPaths(paths));
                          }});
  members_ = std::make_unique<TrustBook>(*store_, fence_, options_.trust);
  tokens_ =
      std::make_unique<TokenBook>(*store_, fence_, cluster_, [this] { return members_->issuer(); });
  Status loaded =
      options_.first_token_file.empty() ? Status() : tokens_->TakeFirst(options_.first_token_file);
  if (loaded) loaded = members_->Load(UnixSeconds());
  if (loaded) loaded = membership_->Load();
  if (loaded) loaded = tasks_.Load(*store_);
  if (loaded) loaded = links_->Load();
  if (loaded) loaded = budget_->Load();
  if (loaded) loaded = pins_->Load();
  if (loaded) loaded = changed_->Load();
  if (loaded) loaded = stats_->Load();
  if (loaded && !is_marked_)
    claim_.state = StateVersion{.links = links_->version(), .ring = membership_->epoch()};
  return loaded;
}

/// The cluster's name is born with its first coordinator, or with its certificates.
Status Coordinator::LoadCluster() {
  Result<std::optional<std::string>> stored = store_->Get(kClusterKey);
  if (!stored) return Fail(stored.error());
  if (stored->has_value()) {
    cluster_ = Uuid::Parse(**stored);
    if (!cluster_.IsZero()) return CheckTrust();
    return Fail(Code::kCorrupt, "the cluster's uuid in " + options_.state_dir + " is damaged");
  }
  cluster_ = options_.trust ? options_.trust->self().cluster : Uuid::Random();
  StateBatch batch;
  batch.Put(kClusterKey, cluster_.ToString());
  batch.Put(kStateFormatKey, StateFormatRow());
  return store_->Write(batch, fence_);
}

Status Coordinator::CheckTrust() const {
  if (!options_.trust || options_.trust->self().cluster == cluster_) return {};
  return Fail(Code::kInvalid,
              options_.state_dir + " is of cluster " + cluster_.ToString() +
                  ", and the certificates are of cluster " +
                  options_.trust->self().cluster.ToString() +
                  ": name the right --trust-dir, or make the certificates with 'forebay init "
                  "--cluster " +
                  cluster_.ToString() + "'");
}

// Every frame says it, and peers may be at several: the newest is logged, once.
void Coordinator::NoteNewerEpoch(std::uint64_t newer) {
  std::uint64_t newest = newest_epoch_.load();
  while (newer > newest && !newest_epoch_.compare_exchange_weak(newest, newer)) {
  }
  if (newer <= newest) return;
  spdlog::warn(
      "a peer is at ring epoch {} and this coordinator at {}: was its state restored "
      "from an old copy?",
      newer, membership_->epoch());
}

Status Coordinator::Serve() {
  asio::io_context& context = io_.At(0);
  const auto epoch = [this] { return membership_->epoch(); };
  const auto on_newer_epoch = [this](std::uint64_t newer) { NoteNewerEpoch(newer); };
  ClientPoolOptions client_options;
  client_options.credentials = CoordinatorCredentials(options_, cluster_, claim_);
  peers_ = std::make_unique<ClientPool>(context, client_options, epoch, on_newer_epoch);
  copier_ = std::make_unique<GenerationCopier>(*peers_, *index_, offload_);
  auto call = [this](NodeInfo node, Method method,
                     std::shared_ptr<const google::protobuf::MessageLite> request,
                     Deadline deadline) {
    return CallNode(std::move(node), method, std::move(request), deadline);
  };
  census_ = std::make_unique<CacheCensus>(call, offload_);
  explainer_ = std::make_unique<Explainer>(call, origin_.store, *pins_, requests_);
  pin_keeper_ = std::make_unique<PinKeeper>(PinKeeper::Parts{
      .call = call,
      .pins = *pins_,
      .links = *links_,
      .index = *index_,
      .offload = offload_,
      .up_nodes = [this] { return membership_->UpNodes(); },
      .node_pins = [this](const std::string& node) { return stats_->NodePins(node); },
      .job_idle = [this](const std::string& job) { return stats_->JobIdle(job); }});
  copy_keeper_ = std::make_unique<CopyKeeper>(
      CopyKeeper::Parts{*links_, *index_, *membership_, call, offload_});
  linker_ = std::make_unique<Linker>(
      context,
      Linker::Parts{.store = origin_.store,
                    .complete_origin = origin_.complete,
                    .links = *links_,
                    .tasks = tasks_,
                    .index = *index_,
                    .offload = offload_,
                    .listing = options_.listing,
                    .find =
                        [this](Uuid link, proto::GenerationInfo generation) {
                          return FindGeneration(link, std::move(generation));
                        },
                    .workers = {listing_.At(0).get_executor(), listing_.At(1).get_executor()},
                    .leads = [this] { return Leads(); }});
  MakeServices();
  ServeTasks(call);
  RpcServerOptions server_options{.listen = {options_.listen},
                                  .reach = options_.reach,
                                  .credentials = CoordinatorCredentials(options_, cluster_),
                                  .max_connections = ConnectionsOfProcess()};
  server_ = std::make_unique<RpcServer>(io_, server_options, AllMethods(), epoch, on_newer_epoch);

  io_.Start();
  listing_.Start();
  // Before anybody can ask: what is published is open when the first mount comes.
  Status resumed = RunAndWait(ResumeTasks(), std::chrono::minutes(10));
  if (!resumed) return resumed;
  maintaining_ = true;
  Spawn(context, Maintain());
  keeping_pins_ = true;
  Spawn(context, KeepPins());
  keeping_listings_ = true;
  Spawn(context, KeepListings());
  keeping_fills_ = true;
  Spawn(context, KeepFills());
  Status serving = server_->Start();
  if (serving) members_->NoteServing();
  return serving;
}

/// From whoever has copied it, when its file is not here.
Task<Status> Coordinator::FindGeneration(Uuid link, proto::GenerationInfo generation) {
  if (!options_.leadership) co_return Fail(Code::kNotFound, "there is no other coordinator");
  auto ask = [others = options_.leadership->others] { return others(); };
  Result<std::vector<std::string>> others = co_await offload_.Run(std::move(ask));
  if (!others) co_return Fail(others.error());
  Status found = Fail(Code::kNotFound, "no other coordinator runs");
  for (const std::string& other : *others) {
    found = co_await copier_->Copy(other, link, generation);
    if (found) {
      spdlog::info("generation {} of link {} is copied from the coordinator at {}",
                   generation.generation(), link.ToString(), other);
      break;
    }
  }
  co_return found;
}

Status Coordinator::RunAndWait(Task<void> task, Duration patience) {
  std::future<void> done = asio::co_spawn(io_.At(0), std::move(task), asio::use_future);
  if (done.wait_for(patience) == std::future_status::ready) return {};
  return Fail(Code::kTimeout, "the coordinator's event loop does not answer");
}

Task<void> Coordinator::ResumeTasks() {
  Status resumed = co_await linker_->Resume();
  if (!resumed) spdlog::error("links cannot be resumed: {}", resumed.error().message);
  resumed = co_await preloader_->Resume();
  if (!resumed) spdlog::error("preloads cannot be resumed: {}", resumed.error().message);
  drainer_->Resume();
  keeping_copies_ = true;
  Spawn(io_.At(0), KeepCopies());
}

Task<void> Coordinator::Maintain() {
  for (std::uint64_t second = 1; !stop_maintaining_; ++second) {
    co_await MaintainOnce(second);
    Notifier::Ticket ticket = maintenance_.Enlist(io_.At(0).get_executor());
    if (stop_maintaining_) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
  maintaining_ = false;
  maintenance_.NotifyAll();
}

/// Beside Maintain: telling a node of many pins takes longer than a second.
Task<void> Coordinator::KeepPins() {
  while (!stop_maintaining_) {
    co_await pin_keeper_->Tick();
    Notifier::Ticket ticket = maintenance_.Enlist(io_.At(0).get_executor());
    if (stop_maintaining_) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
  keeping_pins_ = false;
  maintenance_.NotifyAll();
}

/// Beside Maintain: copies take as long as the nodes take.
Task<void> Coordinator::KeepCopies() {
  while (!stop_maintaining_) {
    co_await copy_keeper_->Tick();
    Notifier::Ticket ticket = maintenance_.Enlist(io_.At(0).get_executor());
    if (stop_maintaining_) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
  keeping_copies_ = false;
  maintenance_.NotifyAll();
}

/// What has changed in S3 shows in the mounts within 5 s, which look every 2 s.
Task<void> Coordinator::KeepListings() {
  constexpr std::chrono::milliseconds kLook{250};
  constexpr std::chrono::seconds kIdle{60};
  while (!stop_maintaining_) {
    Notifier::Ticket ticket = changed_->reported().Enlist(io_.At(0).get_executor());
    const bool busy = changed_->IsBusy();
    if (busy) co_await changed_->Look();
    if (stop_maintaining_) break;
    (void)co_await ticket.Wait(Deadline::After(busy ? Duration(kLook) : Duration(kIdle)));
  }
  keeping_listings_ = false;
  maintenance_.NotifyAll();
}

Task<bool> Coordinator::ListAgain(LinkSpec link, std::string path) {
  const std::string name = link.name;
  Result<proto::RefreshReply> begun =
      co_await linker_->StartRefresh(std::move(link), std::move(path), RefreshCause::kChanged);
  if (!begun) spdlog::warn("link '{}' is not refreshed: {}", name, begun.error().message);
  co_return begun && begun->started();
}

/// Beside Maintain: a fill begins with a look at what the nodes hold.
Task<void> Coordinator::KeepFills() {
  while (!stop_maintaining_) {
    Notifier::Ticket ticket = fills_->due().Enlist(io_.At(0).get_executor());
    co_await fills_->Tick();
    if (stop_maintaining_) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
  keeping_fills_ = false;
  maintenance_.NotifyAll();
}

Task<void> Coordinator::MaintainOnce(std::uint64_t second) {
  if (node_service_->HasHeardOfNewer()) co_await MarkAsOutdated();
  Status ticked = co_await membership_->Tick();
  if (!ticked) spdlog::error("the members cannot be updated: {}", ticked.error().message);
  requests_.ReportOwn(origin_.requests.Uses(), Clock::now());
  requests_.Tick(links_->Specs(), Clock::now(), UnixSeconds());
  origin_.requests.SetLeases(requests_.OwnLeases());
  co_await linker_->RefreshDue();
  if (second % kSaveEverySeconds != 0) co_return;
  co_await KeepCertificates();
  stats_->Sample();
  Status saved = co_await stats_->Save();
  if (!saved) spdlog::error("the statistics cannot be saved: {}", saved.error().message);
}

Task<void> Coordinator::MarkAsOutdated() {
  if (is_marked_) co_return;
  auto mark = [this]() -> Status { return MarkOutdated(*store_, claim_, fence_); };
  const Status marked = co_await offload_.Run(std::move(mark));
  // Of one that was replaced while it slept nothing is written; what else fails is tried again.
  is_marked_ = marked || marked.error().code == Code::kDenied;
}

Task<void> Coordinator::KeepCertificates() {
  auto keep = [this]() -> Status {
    members_->KeepOwn(UnixSeconds());
    return {};
  };
  // What goes wrong is logged there; too much waiting work is tried again soon.
  (void)co_await offload_.Run(std::move(keep));
}

Task<void> Coordinator::ClosePeers() {
  stop_maintaining_ = true;
  copy_keeper_->Stop();
  maintenance_.NotifyAll();
  changed_->reported().NotifyAll();
  fills_->due().NotifyAll();
  peers_->Close();
  for (;;) {
    Notifier::Ticket ticket = maintenance_.Enlist(io_.At(0).get_executor());
    const bool keeping = keeping_pins_ || keeping_listings_ || keeping_fills_ || keeping_copies_;
    if (!maintaining_ && !keeping) co_return;
    (void)co_await ticket.Wait(Deadline::After(kClosePatience));
  }
}

Task<Result<RpcReply>> Coordinator::CallNode(
    NodeInfo node, Method method, std::shared_ptr<const google::protobuf::MessageLite> request,
    Deadline deadline) {
  if (!Leads()) co_return Fail(Code::kUnavailable, "this coordinator no longer leads");
  Result<RpcReply> reply = co_await peers_->Call(node.address, method, *request, deadline);
  if (reply) {
    node_service_->NoteObeyed(node.id);
  } else if (reply.error().code == Code::kDenied) {
    node_service_->NoteDenied(node.id, reply.error().message);
  }
  co_return reply;
}

Metrics::Registration Coordinator::Observe(Metrics& metrics) const {
  return metrics.AddCollector([this](MetricSamples& samples) {
    samples.Set(metric::kCoordinatorIsLeader, {}, 1);
    const ClientService::Sent& sent = client_service_->sent();
    samples.Set(metric::kSnapshotSentBytes, {"whole"},
                static_cast<double>(sent.whole_bytes.load()));
    samples.Set(metric::kSnapshotSentBytes, {"difference"},
                static_cast<double>(sent.difference_bytes.load()));
    ReportTrust(options_.trust.get(), samples);
    ReportRpc(server_->counters(), samples);
    samples.Set(metric::kRpcRefused, {"memory"}, static_cast<double>(replies_.refused()));
    std::map<NodeState, double> states = {{NodeState::kUp, 0},
                                          {NodeState::kSuspect, 0},
                                          {NodeState::kDraining, 0},
                                          {NodeState::kOut, 0}};
    for (const MemberView& member : membership_->Members()) {
      states[member.info.state] += 1;
      const std::optional<ClockWatch::View> clock = stats_->NodeClock(member.info.id);
      if (clock)
        samples.Set(metric::kNodeClockOffset, {member.info.id},
                    static_cast<double>(clock->ahead.count()) / 1000);
    }
    for (const auto& [state, count] : states) {
      samples.Set(metric::kRingMembers, {StateName(state)}, count);
    }
    ReportPreloads(tasks_, samples);
    for (const Link& link : links_->All()) {
      if (!link.generation) continue;
      samples.Set(metric::kLinkLastRefresh, {link.spec.name},
                  static_cast<double>(link.generation->listed_unix_s()));
    }
  });
}

void Coordinator::Stop() {
  if (stopped_) return;
  stopped_ = true;
  // What is asked of one that was replaced is answered by its successor.
  if (server_) server_->Stop(Deadline::After(Leads() ? Duration(kDrain) : Duration::zero()));
  if (linker_) linker_->ExpectInterruption();
  if (linker_ && server_) {
    Status cancelled = RunAndWait(linker_->CancelAll(), kClosePatience);
    if (!cancelled) spdlog::warn("listings could not be told in time that this coordinator stops");
  }
  if (origin_.interrupt) origin_.interrupt();
  if (linker_ && server_) {
    Status ended = RunAndWait(linker_->Stop(), kLinkerPatience);
    if (!ended) spdlog::warn("listings did not end in time; they begin again at the next start");
    Status preloads = RunAndWait(preloader_->Stop(), kPreloadPatience);
    if (!preloads) spdlog::warn("preloads did not end in time; they go on from an earlier point");
    Status drains = RunAndWait(drainer_->Stop(), kPreloadPatience);
    if (!drains) spdlog::warn("drains did not end in time; they go on at the next start");
    Status closed = RunAndWait(ClosePeers(), kClosePatience);
    if (!closed) spdlog::warn("connections to nodes did not close in time");
  }
  listing_.Stop();
  io_.Stop();
  offload_.Stop();
  if (node_service_ && node_service_->HasHeardOfNewer() && !is_marked_ && Leads()) {
    const Status ignored = MarkOutdated(*store_, claim_, fence_);
    (void)ignored;  // the next start is told again
  }
  if (stats_ && Leads()) {
    Status saved = stats_->SaveNow();
    if (!saved) spdlog::error("the statistics cannot be saved: {}", saved.error().message);
  }
}

}  // namespace forebay
