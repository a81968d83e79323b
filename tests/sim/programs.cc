#include "tests/sim/programs.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstring>

#include "common/base/wall_clock.h"
#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"

namespace forebay::sim {
namespace {

constexpr std::chrono::seconds kTickEvery{1};
/// As kS3Patience of a mount, less what nobody here would wait for.
constexpr std::chrono::seconds kReadPatience{120};

Slice SliceOf(const std::string& bytes) {
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
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
                               MembershipTimes times)
    : Program(world, network, "coordinator", kCoordinatorMachine), disk_(disk), members_(times) {
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
  disk_.table = std::make_shared<const RingTable>(
      RingTable::Next(*disk_.table, std::move(nodes), UnixSeconds()));
}

Slice SimCoordinator::Table() {
  std::vector<NodeInfo> nodes = Nodes();
  if (!serialized_ || serialized_epoch_ != table().epoch() || serialized_nodes_ != nodes) {
    const Slice bytes = SliceOf(table().WithNodeDetails(nodes).Serialize());
    auto buffer = std::make_shared<Buffer>(bytes.bytes.size());
    std::memcpy(buffer->data(), bytes.bytes.data(), bytes.bytes.size());
    serialized_ = std::move(buffer);
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
  const NodeInfo* tabled = table().Find(info->id);
  const auto capacity = tabled == nullptr ? std::nullopt : std::optional(tabled->capacity_bytes);
  Result<MemberTable::Registration> plan =
      members_.PlanRegistration(*info, request.incarnation(), capacity, Clock::now());
  if (!plan) co_return Fail(plan.error());
  Commit({plan->member}, plan->new_table);
  co_return ReplyWith(proto::RegisterNodeReply(), Table());
}

Task<Result<RpcReply>> SimCoordinator::Heartbeat(RpcCall call) {
  proto::HeartbeatRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::HeartbeatReply reply;
  reply.set_register_again(
      !members_.Heartbeat(request.node_id(), request.incarnation(), Clock::now()));
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> SimCoordinator::GetRing(RpcCall call) {
  proto::GetRingRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::GetRingReply reply;
  reply.set_epoch(table().epoch());
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
  const Member& after = **planned;
  const bool moves = members_.members().at(after.info.id).info.state != after.info.state;
  Commit({after}, moves);
  return true;
}

SimNode::SimNode(World& world, Network& network, FarS3& s3, const Dataset& data, NodeDisk& disk,
                 NodeShared& shared, Options options)
    : Program(world, network, options.id, options.machine),
      options_(std::move(options)),
      address_(options_.machine + ":7442"),
      disk_(disk),
      s3_(s3, options_.id),
      origin_(s3_, changed_, [] {}) {
  cluster_.SetLinks({data.link()}, 1);
  cluster_.OfferRing(*disk.ring);
  PeerSourceOptions peers;
  peers.self = options_.id;
  peers_ = std::make_unique<PeerSource>(std::move(peers), cluster_);
  CopySenderOptions copies;
  copies.self = options_.id;
  copies_ = std::make_unique<CopySender>(std::move(copies), cluster_);
  world_.SetBuilder(nullptr);
  filler_ = std::make_unique<Filler>(FillerOptions(), io_, *disk.blocks, *peers_, origin_,
                                     counters_, shared.history);
  filler_->NotifyKept(
      [this](const ColdBlock& cold, bool from_peer) { copies_->Add(cold, from_peer); });
  reader_ = std::make_unique<BlockReader>(*disk.blocks, *filler_, counters_, shared.history);
  batches_ = std::make_unique<BatchFiller>(*disk.blocks, *filler_);
  service_ = std::make_unique<Service>(Service::Parts{.cluster = cluster_,
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
  server.epoch = [this] { return cluster_.ring_epoch(); };
  server.on_newer_epoch = [](std::uint64_t) {};
  network_.Listen(address_, std::move(server));
  peers_->Start(options_.restarted);
  copies_->Start();
  Spawn(io_.At(0), Beat());
  process_.RunReady();
}

SimNode::~SimNode() {
  network_.Close(address_);
  Die();
}

Status SimNode::TakeRing(const RpcReply& reply) {
  const ByteView bytes = reply.payload.bytes;
  if (bytes.empty()) return {};
  Result<RingTable> table =
      RingTable::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!table) return Fail(table.error());
  cluster_.OfferRing(std::move(*table));
  disk_.ring = cluster_.ring();
  return {};
}

Task<Status> SimNode::BeatOnce() {
  const Deadline deadline = Deadline::After(kHeartbeatEvery * 3);
  proto::HeartbeatRequest beat;
  beat.set_node_id(options_.id);
  beat.set_incarnation(options_.incarnation);
  Result<RpcReply> reply =
      co_await coordinator_->Call(kCoordinatorAddress, Method::kHeartbeat, beat, deadline);
  if (!reply) co_return Fail(reply.error());
  proto::HeartbeatReply answer;
  Status parsed = ParseMessage(reply->message, answer);
  if (!parsed) co_return parsed;
  if (answer.register_again()) {
    NodeInfo self;
    self.id = options_.id;
    self.address = address_;
    self.capacity_bytes = options_.capacity;
    proto::RegisterNodeRequest request;
    *request.mutable_node() = ToProto(self);
    request.set_incarnation(beat.incarnation());
    reply =
        co_await coordinator_->Call(kCoordinatorAddress, Method::kRegisterNode, request, deadline);
    co_return reply ? TakeRing(*reply) : Fail(reply.error());
  }
  if (reply->ring_epoch <= cluster_.ring_epoch()) co_return Status();
  proto::GetRingRequest request;
  request.set_have_epoch(cluster_.ring_epoch());
  reply = co_await coordinator_->Call(kCoordinatorAddress, Method::kGetRing, request, deadline);
  co_return reply ? TakeRing(*reply) : Fail(reply.error());
}

Task<void> SimNode::Beat() {
  for (;;) {
    (void)co_await BeatOnce();
    co_await SleepFor(kHeartbeatEvery);
  }
}

SimMount::SimMount(World& world, Network& network, const Dataset& data, const std::string& machine,
                   ReadTally& tally)
    : Program(world, network, "mount", machine), data_(data), tally_(tally) {
  world_.SetBuilder(nullptr);
  asio::io_context& context = io_.At(0);
  ClientPoolOptions options;
  pool_ = std::make_unique<ClientPool>(
      context, std::move(options), [this] { return ring_.epoch(); },
      [this](std::uint64_t epoch) { refresher_->Notice(epoch); });
  refresher_ = std::make_unique<RingRefresher>(context, *pool_, ring_,
                                               std::vector<std::string>{kCoordinatorAddress});
  client_ = std::make_unique<BlockClient>(
      BlockClient::Parts{context, *pool_, ring_, *refresher_, health_, pace_, stats_},
      BlockClientOptions());
}

SimMount::~SimMount() { Die(); }

void SimMount::Read(std::size_t count, std::function<std::size_t()> next, Duration pause) {
  ++readers_;
  Spawn(io_.At(0), RunReader(count, std::move(next), pause));
  process_.RunReady();
}

Task<void> SimMount::RunReader(std::size_t count, std::function<std::size_t()> next,
                               Duration pause) {
  for (std::size_t i = 0; i < count; ++i) {
    co_await SleepFor(world_.Between(Duration::zero(), pause));
    const std::size_t object = next();
    const TimePoint began = Clock::now();
    const Result<Cells> cells =
        co_await client_->Read(data_.RequestFor(object), Deadline::After(kReadPatience));
    Note(object, cells, Clock::now() - began);
  }
  --readers_;
}

void SimMount::Note(std::size_t object, const Result<Cells>& cells, Duration took) {
  ++tally_.reads;
  tally_.longest = std::max(tally_.longest, took);
  if (!cells) {
    ++tally_.failed;
    if (tally_.first_failure.empty()) tally_.first_failure = cells.error().message;
  } else if (!data_.AreRight(object, cells->Part(data_.RequestFor(object).range))) {
    ++tally_.wrong;
  }
}

}  // namespace forebay::sim
