#include "tests/sim/programs.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstring>

#include "common/base/wall_clock.h"
#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"
#include "tests/sim/kept_listing.h"

namespace forebay::sim {
namespace {

constexpr std::chrono::seconds kTickEvery{1};
/// How often a node looks for pinned copies that it does not own.
constexpr std::chrono::seconds kLookForCopies{1};
/// There is one link, and it stays as it is.
constexpr std::uint64_t kLinksVersion = 1;

std::shared_ptr<const Buffer> BufferOf(const std::string& bytes) {
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace

Program::Program(World& world, Network& network, const std::string& name,
                 const std::string& machine)
    : world_(world), network_(network), process_(world, name) {
  network_.SetMachine(process_, machine);
  world_.SetBuilder(&process_);
}

Program::~Program() { network_.Forget(process_); }

SimCoordinator::SimCoordinator(World& world, Network& network, CoordinatorState& disk,
                               Options options)
    : Program(world, network, "coordinator", kCoordinatorMachine),
      disk_(disk),
      options_(std::move(options)),
      fence_{.epoch = ++disk.starts,
             .claim = Uuid::Random(),
             .state = StateVersion{.links = kLinksVersion, .ring = disk.table->epoch()}},
      members_(options_.times) {
  members_.Restore(disk.members, Clock::now());
  world_.SetBuilder(nullptr);
  Network::Server server;
  server.process = &process_;
  server.executor = io_.At(0).get_executor();
  server.methods[Method::kRegisterNode] = [this](RpcCall call) {
    return Register(std::move(call));
  };
  server.methods[Method::kHeartbeat] = [this](RpcCall call) { return Heartbeat(std::move(call)); };
  server.methods[Method::kGetRing] = [this](RpcCall call) { return GetRing(std::move(call)); };
  server.methods[Method::kGetLinks] = [this](RpcCall call) { return GetLinks(std::move(call)); };
  server.methods[Method::kChangeNode] = [this](RpcCall call) {
    return ChangeNode(std::move(call));
  };
  server.epoch = [this] { return disk_.table->epoch(); };
  server.on_newer_epoch = [](std::uint64_t) {};
  network_.Listen(kCoordinatorAddress, std::move(server));
  Spawn(io_.At(0), Tick());
  process_.RunReady();
}

SimCoordinator::~SimCoordinator() {
  network_.Close(kCoordinatorAddress);
  Die();
}

void SimCoordinator::Commit(const std::vector<Member>& changed, bool new_table) {
  for (const Member& member : changed) members_.Commit(member);
  disk_.members.clear();
  std::vector<NodeInfo> nodes;
  for (const auto& [id, member] : members_.members()) {
    disk_.members.push_back(member);
    if (member.in_ring()) nodes.push_back(member.info);
  }
  if (!new_table) return;
  if (options_.forgets_owners) {
    const std::uint64_t epoch = disk_.table->epoch() + 1;
    const auto later = UnixSeconds() + kPreviousOwnerMemory;
    const RingTable next = RingTable::Next(*disk_.table, nodes, UnixSeconds());
    disk_.table = std::make_shared<const RingTable>(
        RingTable::Next(next, std::move(nodes), later).AtEpoch(epoch));
    return;
  }
  disk_.table = std::make_shared<const RingTable>(
      RingTable::Next(*disk_.table, std::move(nodes), UnixSeconds()));
}

Slice SimCoordinator::Table() {
  std::vector<NodeInfo> nodes = Nodes();
  if (!serialized_ || serialized_epoch_ != table().epoch() || serialized_nodes_ != nodes) {
    serialized_ = BufferOf(table().WithNodeDetails(nodes).Serialize());
    serialized_nodes_ = std::move(nodes);
    serialized_epoch_ = table().epoch();
  }
  return Slice::Of(serialized_);
}

Task<Result<RpcReply>> SimCoordinator::Register(RpcCall call) {
  proto::RegisterNodeRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<NodeInfo> info = FromProto(request.node());
  if (!info) co_return Fail(info.error());
  Status believed = CheckFence(request.fence());
  if (!believed) co_return Fail(believed.error());
  const NodeInfo* tabled = table().Find(info->id);
  const auto capacity = tabled == nullptr ? std::nullopt : std::optional(tabled->capacity_bytes);
  Result<MemberTable::Registration> plan =
      members_.PlanRegistration(*info, request.incarnation(), capacity, Clock::now());
  if (!plan) co_return Fail(plan.error());
  Commit({plan->member}, plan->new_table);
  proto::RegisterNodeReply reply;
  *reply.mutable_fence() = ToProto(fence_);
  co_return ReplyWith(reply, Table());
}

Task<Result<RpcReply>> SimCoordinator::Heartbeat(RpcCall call) {
  proto::HeartbeatRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Status believed = CheckFence(request.fence());
  if (!believed) co_return Fail(believed.error());
  proto::HeartbeatReply reply;
  *reply.mutable_fence() = ToProto(fence_);
  reply.set_register_again(
      !members_.Heartbeat(request.node_id(), request.incarnation(), Clock::now()));
  co_return ReplyWith(reply);
}

// As NodeService does.
Status SimCoordinator::CheckFence(const proto::Fence& heard) {
  if (Believes(FromProto(heard), fence_)) return {};
  ++outdated_;
  return Fail(Code::kUnavailable, "this coordinator is an older one than a node has heard of");
}

Task<Result<RpcReply>> SimCoordinator::GetLinks(RpcCall) {
  proto::GetLinksReply reply;
  reply.set_cluster(BytesOf(ClusterId()));
  if (!options_.link.spec().name().empty()) *reply.add_links() = options_.link;
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> SimCoordinator::ChangeNode(RpcCall call) {
  proto::ChangeNodeRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const auto change = static_cast<NodeChange>(request.change());
  const TimePoint now = Clock::now();
  const Result<std::optional<Member>> plan = change == NodeChange::kDrain
                                                 ? members_.PlanDrain(request.node(), now)
                                                 : members_.PlanReturn(request.node());
  if (!plan) co_return Fail(plan.error());
  proto::ChangeNodeReply reply;
  reply.set_changed(plan->has_value());
  if (*plan) Apply(**plan);
  reply.set_ring_epoch(table().epoch());
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> SimCoordinator::GetRing(RpcCall call) {
  proto::GetRingRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::GetRingReply reply;
  reply.set_epoch(table().epoch());
  *reply.mutable_fence() = ToProto(fence_);
  if (request.have_epoch() >= table().epoch()) co_return ReplyWith(reply);
  co_return ReplyWith(reply, Table());
}

Task<void> SimCoordinator::Tick() {
  for (;;) {
    co_await SleepFor(kTickEvery);
    const std::vector<Member> outs = members_.PlanOuts(Clock::now(), UnixSeconds());
    if (!outs.empty()) Commit(outs, true);
  }
}

bool SimCoordinator::Decide(const Plan& plan) {
  const Result<std::optional<Member>> planned = plan(members_, Clock::now());
  if (!planned || !planned->has_value()) return false;
  Apply(**planned);
  return true;
}

void SimCoordinator::Apply(const Member& after) {
  const bool moves = members_.members().at(after.info.id).info.state != after.info.state;
  Commit({after}, moves);
}

namespace {

// What Filler asks in the place of the other nodes, where a mutant asks none.
class NoPeers final : public BlockPeers {
 public:
  bool MayHave(const ColdBlock&) const override { return false; }
  Task<Result<PeerFind>> Get(ColdBlock, PeerSink&, Deadline) override { co_return PeerFind(); }
  bool MayStandIn(const ColdBlock&) const override { return false; }
  Task<Result<PeerFind>> GetByStandIn(ColdBlock, PeerSink&, Deadline) override {
    co_return PeerFind();
  }
  void NoteRefused() override {}
};

// The other nodes, of whom none asks S3 in this one's place.
class NoStandIns final : public BlockPeers {
 public:
  explicit NoStandIns(BlockPeers& peers) : peers_(peers) {}
  bool MayHave(const ColdBlock& cold) const override { return peers_.MayHave(cold); }
  Task<Result<PeerFind>> Get(ColdBlock cold, PeerSink& sink, Deadline deadline) override {
    return peers_.Get(std::move(cold), sink, deadline);
  }
  bool MayStandIn(const ColdBlock&) const override { return false; }
  Task<Result<PeerFind>> GetByStandIn(ColdBlock, PeerSink&, Deadline) override {
    co_return PeerFind();
  }
  void NoteRefused() override { peers_.NoteRefused(); }

 private:
  BlockPeers& peers_;
};

// Of a reader that would not go on to another owner.
RpcCall ThatStays(RpcCall call) {
  proto::ReadBlockRequest request;
  if (!ParseMessage(call.message, request)) return call;
  request.set_may_go_on(false);
  call.message = request.SerializeAsString();
  return call;
}

// Of all blocks that are asked about.
Task<Result<RpcReply>> HasAll(RpcCall call) {
  proto::CheckBlocksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::CheckBlocksReply reply;
  reply.set_present(std::string(static_cast<std::size_t>(request.blocks_size() + 7) / 8, '\xff'));
  co_return ReplyWith(reply);
}

}  // namespace

SimNode::SimNode(World& world, Network& network, FarS3& s3, const Dataset& data, NodeDisk& disk,
                 NodeShared& shared, Options options)
    : Program(world, network, options.id, options.machine),
      options_(std::move(options)),
      address_(options_.machine + ":7442"),
      disk_(disk),
      s3_(s3, options_.id),
      origin_(s3_, changed_, [] {}) {
  if (!disk.view_file.empty()) {
    const Status ignored = cluster_.KeepIn({disk.view_file});
    (void)ignored;
  }
  if (cluster_.links_version() == 0) {
    cluster_.SetCluster(ClusterId());
    LinkSpec link = data.link();
    if (options_.pinned) link.pins = {""};
    cluster_.SetLinks({std::move(link)}, kLinksVersion);
    cluster_.OfferRing(*disk.ring);
    const Status ignored = Keep();
    (void)ignored;
  }
  PeerSourceOptions peers;
  peers.self = options_.id;
  peers.zone = options_.zone;
  peers_ = std::make_unique<PeerSource>(std::move(peers), cluster_);
  CopySenderOptions copies;
  copies.self = options_.id;
  copies_ = std::make_unique<CopySender>(std::move(copies), cluster_);
  PinReleaserOptions pins;
  pins.self = options_.id;
  pins.rules.look_every = kLookForCopies;
  pins_ = std::make_unique<PinReleaser>(std::move(pins), cluster_, *disk.blocks);
  world_.SetBuilder(nullptr);
  static NoPeers nobody;
  alone_ = std::make_unique<NoStandIns>(*peers_);
  BlockPeers* others = peers_.get();
  if (options_.asks_nobody) others = &nobody;
  if (options_.stands_alone) others = alone_.get();
  filler_ = std::make_unique<Filler>(FillerOptions(), io_, *disk.blocks, *others, origin_,
                                     counters_, shared.history);
  filler_->NotifyKept(
      [this](const ColdBlock& cold, bool from_peer) { copies_->Add(cold, from_peer); });
  static ReplyRoom replies(1ULL << 40);  // replies on their way outlive a node that dies
  reader_ =
      std::make_unique<BlockReader>(*disk.blocks, *filler_, replies, counters_, shared.history);
  batches_ = std::make_unique<BatchFiller>(*disk.blocks, *filler_);
  service_ = std::make_unique<Service>(Service::Parts{.self = options_.id,
                                                      .cluster = cluster_,
                                                      .reader = *reader_,
                                                      .filler = *filler_,
                                                      .batches = *batches_,
                                                      .store = *disk.blocks,
                                                      .history = shared.history,
                                                      .verify_pace = verify_pace_,
                                                      .copy_pace = copy_pace_,
                                                      .send_pace = send_pace_,
                                                      .hot_reads = hot_reads_,
                                                      .metrics = shared.metrics,
                                                      .refresh_links = [] {}});
  ClientPoolOptions pool;
  coordinator_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); }, [](std::uint64_t) {});
  Network::Server server;
  server.process = &process_;
  server.executor = io_.At(0).get_executor();
  for (MethodEntry& entry : service_->Methods())
    server.methods[entry.method] = std::move(entry.handler);
  if (options_.keeps_readers) {
    RpcHandler& read = server.methods[Method::kReadBlock];
    read = [read](RpcCall call) { return read(ThatStays(std::move(call))); };
  }
  if (options_.says_it_has) server.methods[Method::kCheckBlocks] = HasAll;
  server.epoch = [this] { return cluster_.ring_epoch(); };
  server.on_newer_epoch = [](std::uint64_t) {};
  network_.Listen(address_, std::move(server));
  peers_->Start(options_.restarted);
  copies_->Start();
  if (options_.pinned) pins_->Start();
  Spawn(io_.At(0), Beat());
  process_.RunReady();
}

SimNode::~SimNode() {
  network_.Close(address_);
  Die();
}

// In a week's time a node begins from its file; else from memory, which takes no time.
Status SimNode::Keep() {
  disk_.ring = cluster_.ring();
  return disk_.view_file.empty() ? Status() : cluster_.Keep();
}

Status SimNode::TakeRing(const RpcReply& reply) {
  const ByteView bytes = reply.payload.bytes;
  if (bytes.empty() || options_.keeps_old_ring) return {};
  Result<RingTable> table =
      RingTable::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!table) return Fail(table.error());
  cluster_.OfferRing(std::move(*table));
  return Keep();
}

// As Heartbeat does.
Status SimNode::CheckFence(const proto::Fence& fence) {
  const Fence before = cluster_.fence();
  if (!cluster_.Believe(FromProto(fence)) && !options_.believes_all)
    return Fail(Code::kUnavailable, "the coordinator is an old one");
  return cluster_.fence() == before ? Status() : Keep();
}

Task<Status> SimNode::Register() {
  NodeInfo self;
  self.id = options_.id;
  self.address = address_;
  self.zone = options_.zone;
  self.capacity_bytes = options_.capacity;
  proto::RegisterNodeRequest request;
  *request.mutable_node() = ToProto(self);
  request.set_incarnation(options_.incarnation);
  if (!options_.believes_all) *request.mutable_fence() = ToProto(cluster_.fence());
  Result<RpcReply> reply = co_await coordinator_->Call(
      kCoordinatorAddress, Method::kRegisterNode, request, Deadline::After(kHeartbeatEvery * 3));
  proto::RegisterNodeReply answer;
  Status status = reply ? ParseMessage(reply->message, answer) : Fail(reply.error());
  if (status) status = CheckFence(answer.fence());
  co_return status ? TakeRing(*reply) : status;
}

Task<Status> SimNode::BeatOnce() {
  const Deadline deadline = Deadline::After(kHeartbeatEvery * 3);
  proto::HeartbeatRequest beat;
  beat.set_node_id(options_.id);
  beat.set_incarnation(options_.incarnation);
  if (!options_.believes_all) *beat.mutable_fence() = ToProto(cluster_.fence());
  Result<RpcReply> reply =
      co_await coordinator_->Call(kCoordinatorAddress, Method::kHeartbeat, beat, deadline);
  if (!reply) co_return Fail(reply.error());
  proto::HeartbeatReply answer;
  Status status = ParseMessage(reply->message, answer);
  if (status) status = CheckFence(answer.fence());
  if (!status) co_return status;
  if (answer.register_again()) {
    status = co_await Register();
    co_return status;
  }
  if (reply->ring_epoch <= cluster_.ring_epoch()) co_return Status();
  proto::GetRingRequest request;
  request.set_have_epoch(cluster_.ring_epoch());
  reply = co_await coordinator_->Call(kCoordinatorAddress, Method::kGetRing, request, deadline);
  if (!reply) co_return Fail(reply.error());
  proto::GetRingReply ring;
  status = ParseMessage(reply->message, ring);
  if (status) status = CheckFence(ring.fence());
  co_return status ? TakeRing(*reply) : status;
}

Task<void> SimNode::Beat() {
  for (;;) {
    (void)co_await BeatOnce();
    co_await SleepFor(kHeartbeatEvery);
  }
}

}  // namespace forebay::sim
