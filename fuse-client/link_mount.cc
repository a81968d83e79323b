#include "fuse-client/link_mount.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <numeric>
#include <optional>
#include <utility>

#include "common/snapshot/changes.h"
#include "common/wire/messages.h"
#include "fuse-client/fuse_mount.h"
#include "fuse-client/fuse_ops.h"
#include "fuse-client/link_sizes.h"
#include "fuse-client/shard_view.h"

namespace forebay {

namespace {

/// The kernel's 128 KiB make eight times as many READs and cost half as much CPU again; more than
/// one largest READ gains nothing, and a page fault in a mapped file reads as much around it.
constexpr unsigned kReadAheadKb = 1024;
/// Of a mount for shards, which reads through the page cache only what is mapped, or on old
/// kernels.
constexpr unsigned kLargeReadAheadKb = 4096;

/// Errors come in bursts, and each writing is a whole file.
constexpr Duration kSaveErrorsAfter = std::chrono::seconds(1);

Task<void> SaveSoon(std::shared_ptr<ErrorLog> errors) {
  co_await SleepFor(kSaveErrorsAfter);
  const Status saved = errors->Save();
  if (!saved) {
    spdlog::warn("{}; .forebay/errors will not outlive this process", saved.error().message);
  }
}

}  // namespace

LinkMount::LinkMount(LinkMountShares shares, MountedNamespace found, Place place,
                     std::function<void()> on_ended)
    : shares_(std::move(shares)),
      namespace_(std::move(found)),
      name_(namespace_.link.spec().name()),
      place_(std::move(place)),
      on_ended_(std::move(on_ended)),
      stats_(shares_.threads.size() + 1) {}  // and of copying

LinkMount::LinkMount(LinkMountShares shares, InheritedMount inherited,
                     std::function<void()> on_ended)
    : LinkMount(std::move(shares), inherited.generations.back(), PlaceOf(inherited.mount),
                std::move(on_ended)) {
  connection_ = inherited.connection;
  inherited_ = std::move(inherited);
}

LinkMount::~LinkMount() {
  shares_.local_socket.Remove(this);
  shares_.metrics.Remove(stats_);
  if (connection_ != 0) DropMount(shares_.keeper, connection_);
}

LinkMount::Place LinkMount::PlaceOf(const proto::KeptMount& mount) {
  return {mount.sub_path(), mount.mountpoint(), mount.device()};
}

MountedNamespace LinkMount::Now() const {
  const std::scoped_lock lock(mutex_);
  return namespace_;
}

void LinkMount::KeepErrors() {
  const std::string folder = FolderOf(namespace_);
  const std::string file = ErrorFileOf(folder, place_.mountpoint);
  RemoveOldErrors(folder, file);
  errors_->KeepIn(file, [errors = std::weak_ptr(errors_), control = &shares_.control] {
    if (auto kept = errors.lock()) Spawn(*control, SaveSoon(std::move(kept)));
  });
}

/// What the kernel was told when it mounted holds until it unmounts.
void LinkMount::ChooseMode() {
  const MountMode asked = shares_.config.mode;
  large_ = asked == MountMode::kLarge ||
           (asked == MountMode::kAuto && SizesOf(*namespace_.snapshot).MostlyLarge());
  if (inherited_) large_ = inherited_->mount.large();
}

Status LinkMount::MakeFileSystem() {
  texts_ = MakeTexts();
  std::vector<ControlFiles::File> control;
  control.push_back({"attributes.jsonl", {}, [this] { return Render(&Texts::attributes); }});
  control.push_back({"config", [this] { return RenderConfig(); }});
  control.push_back({"errors", [this] { return errors_->Render(); }});
  control.push_back({"manifest", {}, [this] { return Render(&Texts::manifest); }});
  control.push_back({"stats", [this] { return RenderStats(); }});
  FileSystemOptions options;
  options.uid = shares_.config.uid;
  options.gid = shares_.config.gid;
  options.file_mode = shares_.config.file_mode;
  options.dir_mode = shares_.config.dir_mode;
  options.kernel_inodes = kernel_inodes_;
  if (large_) options.block_size_hint = FileSystemOptions::kLargeBlockSizeHint;
  Result<std::unique_ptr<FileSystem>> files =
      FileSystem::Make(namespace_.snapshot, options, place_.sub_path,
                       std::make_unique<ControlFiles>(std::move(control)));
  if (!files) return Fail(files.error().Within("link \"" + name_ + "\""));
  files_ = std::move(*files);
  return {};
}

/// The file system as the process before this one had it: programs may hold nodes of generations
/// that are not shown any more.
Status LinkMount::MakeFilesOf(std::vector<MountedNamespace> generations) {
  const MountedNamespace shown = generations.back();
  Status status;
  for (MountedNamespace& generation : generations) {
    const std::uint64_t number = generation.link.generation().generation();
    namespace_ = std::move(generation);
    status = files_ ? files_->Switch(namespace_.snapshot) : MakeFileSystem();
    if (files_ && number == inherited_->announced) unannounced_ = files_->view();
  }
  namespace_ = shown;
  texts_ = MakeTexts();
  if (unannounced_ == files_->view()) unannounced_.reset();
  return status;
}

WorkerOptions LinkMount::OptionsOfWorkers() const {
  replicas_->store(namespace_.link.spec().replicas(), std::memory_order_relaxed);
  WorkerOptions options;
  options.blocks.host_id = shares_.host_id;
  options.blocks.zone = shares_.config.zone;
  options.blocks.replicas = replicas_;
  options.blocks.presence = presence_;
  options.blocks.bandwidth = &shares_.bandwidth;
  options.reader.link = namespace_.snapshot->id().link;
  options.reader.block_bytes = namespace_.snapshot->block_bytes();
  options.reader.patience = shares_.config.s3_timeout;
  options.reader.presence = presence_;
  options.job_from = shares_.config.job_from;
  return options;
}

proto::KeptMount LinkMount::Description() const {
  proto::KeptMount mount;
  mount.set_link(name_);
  mount.set_sub_path(place_.sub_path);
  mount.set_mountpoint(place_.mountpoint);
  mount.set_device(place_.device);
  mount.set_cluster(BytesOf(namespace_.cluster));
  mount.set_cluster_dir(namespace_.cluster_dir);
  mount.set_link_blocks(namespace_.link_blocks);
  mount.set_large(large_);
  return mount;
}

Status LinkMount::MountAndKeep() {
  FuseMountOptions options;
  options.source = place_.device;
  options.mountpoint = place_.mountpoint;
  options.allow_other = shares_.config.allow_other;
  Result<OwnedFd> fd = MountFuse(options);
  if (!fd) return Fail(fd.error());
  fd_ = std::move(*fd);
  connection_ = shares_.keeper.NewConnection();
  KeepMount(shares_.keeper, connection_, Description(), fd_.get());
  KeepKernelInodes(shares_.keeper, connection_, *kernel_inodes_);
  KeepGeneration(shares_.keeper, connection_, namespace_);
  KeepAnnounced(shares_.keeper, connection_, namespace_.link.generation().generation());
  return {};
}

/// What jobs that begin from now on read. The mounts of a job have all shards between them: its
/// progress is that over the whole link.
void LinkMount::TellJobs() const {
  const MountedNamespace now = Now();
  const Snapshot& snapshot = *now.snapshot;
  LinkFacts facts{.name = name_,
                  .generation = snapshot.id().generation,
                  .blocks = now.link_blocks != 0 ? now.link_blocks : SizesOf(snapshot).blocks,
                  .listing_digest = now.link.generation().listing_digest()};
  shares_.jobs.SetLink(snapshot.id().link, std::move(facts));
}

Status LinkMount::Serve() {
  std::string first_message;
  if (inherited_) first_message = std::move(inherited_->first_message);
  Result<std::unique_ptr<FuseSession>> session = FuseSession::Serve(
      ConnectionOf(shares_.keeper, connection_, std::move(fd_), std::move(first_message), large_,
                   large_ && !shares_.config.local_copy.folder.empty()),
      FuseServer::Operations());
  if (!session) return Fail(session.error());
  session_ = std::move(*session);
  PrepareCopies();
  const WorkerShares parts{*session_,        *files_,      shares_.ring,    shares_.refresher,
                           shares_.health,   shares_.pace, streams_,        *errors_,
                           shares_.jobs,     orders_,      shares_.offload, shares_.memory,
                           shares_.segments, copies_.get()};
  const WorkerOptions worker_options = OptionsOfWorkers();
  TellJobs();
  for (std::size_t i = 0; i < shares_.threads.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>(shares_.threads.At(i), *shares_.pools.at(i),
                                                shares_.keeper.Arena(i), parts, stats_.Worker(i),
                                                worker_options, [this] {
                                                  ended_ = true;
                                                  on_ended_();
                                                }));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->SetNext(*workers_[(i + 1) % workers_.size()]);
  }
  for (const auto& worker : workers_) {
    const Status started = worker->Start();
    if (!started) return started;
  }
  return {};
}

Status LinkMount::Start() {
  KeepErrors();
  ChooseMode();
  if (!shares_.keeper.news().empty()) {
    errors_->Add(".", Error{Code::kInternal, shares_.keeper.news()});
  }
  kernel_inodes_ = std::make_shared<KernelInodes>(
      inherited_ ? std::move(inherited_->kernel_inodes) : OwnedFd(), &shares_.kernel_inodes);
  Status status;
  if (inherited_) {
    fd_ = std::move(inherited_->fd);
    KeepKernelInodes(shares_.keeper, connection_, *kernel_inodes_);
    stats_.Restore(inherited_->stats);
    RestoreOrders();
    status = MakeFilesOf(std::move(inherited_->generations));
  } else {
    status = MakeFileSystem();
    if (status) status = MountAndKeep();
  }
  if (status) status = Serve();
  // A path of the mount is looked at when it was made here alone: it may have left the tree since.
  if (status && !inherited_)
    status = ProbeMount(place_.mountpoint, large_ ? kLargeReadAheadKb : kReadAheadKb);
  if (!status) return status;
  read_ahead_kb_ = ReadAheadKb(place_.mountpoint).value_or(0);
  shares_.metrics.Add(stats_, name_);
  BeginOrders();
  BeginCopies();
  const std::string what = place_.sub_path.empty() ? name_ : name_ + "/" + place_.sub_path;
  spdlog::info("{} (generation {}, {} objects) {} on {}, mode {}", what,
               namespace_.snapshot->id().generation, namespace_.snapshot->totals().objects,
               inherited_ ? "stays mounted" : "is mounted", place_.mountpoint,
               large_ ? "large" : "small");
  if (unannounced_) KeepShown(*std::exchange(unannounced_, nullptr));
  inherited_.reset();
  return {};
}

/// What the kernel remembers of generations before the one that is shown is ended.
void LinkMount::KeepShown(const GenerationView& before) {
  Announce(before, std::stop_token());
  KeepAnnounced(shares_.keeper, connection_, namespace_.link.generation().generation());
}

bool LinkMount::IsBehind(const proto::LinkState& link) const {
  return IsLater(link, namespace_.link) && link.generation().generation() != refused_generation_;
}

void LinkMount::Heed(const proto::LinkState& link) {
  if (link.spec().id() != namespace_.link.spec().id()) return;
  replicas_->store(link.spec().replicas(), std::memory_order_relaxed);
}

void LinkMount::SetPresence(LinkPresence::State state) {
  if (!presence_->Set(state)) return;
  const Status there = presence_->Check();
  if (there) return spdlog::info("the coordinator has the link \"{}\" again", name_);
  errors_->Add(".", there.error());
}

Result<MountedNamespace> LinkMount::ShardOf(Result<MountedNamespace> found) const {
  return TakeShard(std::move(found), shares_.config.shard, place_.sub_path);
}

void LinkMount::Follow(MountedNamespace next, const std::stop_token& stop) {
  const std::shared_ptr<const GenerationView> before = files_->view();
  const std::uint64_t generation = next.link.generation().generation();
  // First: as soon as it is shown the kernel has nodes of it.
  KeepGeneration(shares_.keeper, connection_, next);
  const Status switched = files_->Switch(next.snapshot);
  if (!switched) {
    DropGeneration(shares_.keeper, connection_, generation);
    refused_generation_ = generation;
    spdlog::warn("{} stays at generation {} of {}: in generation {}, {}", place_.mountpoint,
                 before->snapshot->id().generation, name_, generation, switched.error().message);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    namespace_ = std::move(next);
    texts_ = MakeTexts();
  }
  TellJobs();
  if (copies_) copies_->Follow();
  const std::uint64_t changes = Announce(*before, stop);
  if (!stop.stop_requested()) KeepAnnounced(shares_.keeper, connection_, generation);
  if (before->earlier.size() == Generations::kEarlierKept) {
    DropGeneration(shares_.keeper, connection_, before->earlier.back()->id().generation);
  }
  spdlog::info("{} shows generation {} of {} ({} objects): {} names or times changed",
               place_.mountpoint, generation, name_, namespace_.snapshot->totals().objects,
               changes);
}

/// The kernel remembers names for ever; what changed is named to it, one message each.
std::uint64_t LinkMount::Announce(const GenerationView& before, const std::stop_token& stop) {
  const std::shared_ptr<const GenerationView> now = files_->view();
  const auto node_of = [&](std::uint64_t nodeid) {
    return nodeid == now->root.nodeid ? GenerationView::kRoot : nodeid;
  };
  std::uint64_t changes = 0;
  std::uint64_t folder = 0;  // whose list of entries has been forgotten
  const Status walked =
      ForEachChange(*before.snapshot, before.root.directory, *now->snapshot, now->root.directory,
                    [&](const SnapshotChange& change) {
                      ++changes;
                      if (change.parent != folder) {
                        folder = change.parent;
                        session_->ForgetNode(node_of(folder));
                      }
                      if (change.kind == SnapshotChange::Kind::kTouched) {
                        session_->ForgetAttributes(node_of(change.nodeid));
                      } else {
                        session_->ForgetName(node_of(change.parent), std::string(change.name));
                      }
                      return !stop.stop_requested() && !ended_;
                    });
  if (changes > 0) session_->ForgetAttributes(GenerationView::kRoot);
  if (!walked) spdlog::error("{}: {}", place_.mountpoint, walked.error().message);
  return changes;
}

/// Before anybody is served: what the kernel reads by itself already is known from the first open.
void LinkMount::PrepareCopies() {
  if (shares_.config.local_copy.folder.empty()) return;
  if (!large_) return spdlog::info("{}: no local copies in mode small", place_.mountpoint);
  const LinkCopies::Parts parts{.local = shares_.copies,
                                .session = *session_,
                                .files = *files_,
                                .errors = *errors_,
                                .stats = stats_,
                                .memory = shares_.memory,
                                .keeper = shares_.keeper,
                                .connection = connection_,
                                .link = namespace_.snapshot->id().link,
                                .block_bytes = namespace_.snapshot->block_bytes()};
  copies_ = inherited_
                ? std::make_unique<LinkCopies>(parts, inherited_->opened, inherited_->copy_counts)
                : std::make_unique<LinkCopies>(parts, std::vector<KeptOpen>(), "");
  shares_.metrics.AddCopies(copies_->counts());
}

/// When the kernel has said what it can.
void LinkMount::BeginCopies() {
  if (!copies_ || shares_.copies == nullptr) return;
  copies_->Begin(
      {shares_.copies->context(), shares_.copies->pool(), shares_.ring, shares_.refresher,
       shares_.health, shares_.pace, stats_.Worker(shares_.threads.size()), shares_.segments},
      OptionsOfWorkers().blocks);
}

Unmounted LinkMount::TryLeave() {
  if (!session_ || ended_) return Unmounted::kDone;
  return TryUnmount(place_.mountpoint);
}

void LinkMount::Detach() {
  if (session_ && !ended_) DetachLazily(place_.mountpoint);
}

void LinkMount::BeginStop() {
  order_runner_.reset();
  if (copies_) copies_->BeginStop();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    asio::post(shares_.threads.At(i), [worker = workers_[i].get()] { worker->BeginStop(); });
  }
}

void LinkMount::StopTaking() {
  order_runner_.reset();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    asio::post(shares_.threads.At(i), [worker = workers_[i].get()] { worker->StopTaking(); });
  }
}

void LinkMount::MarkLeaving() {
  if (!session_) return;
  proto::KeptMount mount = Description();
  mount.set_leaving(true);
  KeepMount(shares_.keeper, connection_, mount, session_->descriptor());
}

void LinkMount::SaveStats() {
  if (!session_) return;
  for (const OrderBook::State& order : orders_.States()) {
    std::size_t& kept = kept_positions_[order.job];
    if (std::exchange(kept, order.position) == order.position) continue;
    KeepOrderPosition(shares_.keeper, connection_, order.job, order.position);
  }
  if (copies_) KeepCopyCounts(shares_.keeper, connection_, copies_->Save());
  std::string now = stats_.Save();
  if (now == kept_stats_) return;
  kept_stats_ = std::move(now);
  KeepStats(shares_.keeper, connection_, kept_stats_);
}

bool LinkMount::Idle() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    std::promise<bool> idle;
    asio::post(shares_.threads.At(i), [&] { idle.set_value(workers_[i]->Idle()); });
    if (!idle.get_future().get()) return false;
  }
  return !copies_ || copies_->Idle();
}

void LinkMount::LogTotals() const {
  if (workers_.empty()) return;
  const StatsSnapshot sum = stats_.Sum();
  const std::uint64_t failed =
      std::accumulate(sum.failed_reads.begin(), sum.failed_reads.end(), std::uint64_t{0});
  spdlog::info("{}: {} reads ({} failed), half within {} s, 99 % within {} s; {}", name_,
               sum.Reads(), failed, sum.ReadSecondsQuantile(0.5), sum.ReadSecondsQuantile(0.99),
               sum.TiersText());
  const Status saved = errors_->Save();
  if (!saved) spdlog::warn("{}; .forebay/errors begins anew", saved.error().message);
}

}  // namespace forebay
