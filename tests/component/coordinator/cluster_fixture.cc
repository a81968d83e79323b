#include "tests/component/coordinator/cluster_fixture.h"

#include <stdlib.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

Credentials CredentialsOf(proto::Role role, std::string id, std::string secret, Uuid cluster) {
  Credentials credentials;
  credentials.role = role;
  credentials.id = std::move(id);
  credentials.program = "test 0";
  credentials.cluster = cluster;
  credentials.secret = Secret(std::move(secret));
  return credentials;
}

std::uint64_t NoEpoch() { return 0; }
void IgnoreEpoch(std::uint64_t) {}

}  // namespace

Caller::Caller(proto::Role role, std::string id, std::string secret, Uuid cluster,
               std::uint64_t ring_epoch, std::string program)
    : io_("caller", 1) {
  ClientPoolOptions options;
  options.credentials = CredentialsOf(role, std::move(id), std::move(secret), cluster);
  options.credentials.program = std::move(program);
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), options, [ring_epoch] { return ring_epoch; }, IgnoreEpoch);
  io_.Start();
}

Caller::~Caller() {
  std::promise<void> closed;
  asio::post(io_.At(0), [&] {
    pool_->Close();
    closed.set_value();
  });
  closed.get_future().wait();
  io_.Stop();
}

Task<Result<RpcReply>> Caller::Once(std::string address, Method method,
                                    std::shared_ptr<const google::protobuf::MessageLite> request) {
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  Result<RpcReply> reply = co_await pool_->Call(std::move(address), method, *request, deadline);
  co_return reply;
}

Result<RpcReply> Caller::Call(const std::string& address, Method method,
                              const google::protobuf::MessageLite& request) {
  std::shared_ptr<google::protobuf::MessageLite> copy(request.New());
  copy->CheckTypeAndMergeFrom(request);
  return asio::co_spawn(io_.At(0), Once(address, method, copy), asio::use_future).get();
}

FakeNode::FakeNode(std::string node_id, std::string secret)
    : id(std::move(node_id)), io_("fakenode", 1), caller_(proto::ROLE_NODE, id, secret) {
  RpcServerOptions options;
  options.listen = {"127.0.0.1:0"};
  options.credentials = CredentialsOf(proto::ROLE_NODE, id, secret, {});
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kCheckBlocks, [this](RpcCall call) { return CheckBlocks(std::move(call)); }});
  methods.push_back(
      {Method::kDescribeBlocks, [this](RpcCall call) { return DescribeBlocks(std::move(call)); }});
  methods.push_back(
      {Method::kEvictBlocks, [this](RpcCall call) { return EvictBlocks(std::move(call)); }});
  methods.push_back(
      {Method::kFillBlocks, [this](RpcCall call) { return FillBlocks(std::move(call)); }});
  server_ = std::make_unique<RpcServer>(io_, options, std::move(methods), NoEpoch, IgnoreEpoch);
  io_.Start();
  const Status started = server_->Start();
  EXPECT_TRUE(started.has_value()) << started.error().message;
  address_ = server_->addresses().front();
}

FakeNode::~FakeNode() { Kill(); }

void FakeNode::Kill() {
  if (!server_) return;
  server_->Stop(Deadline::After({}));
  io_.Stop();
  server_.reset();
}

void FakeNode::OnFill(Fill fill) {
  const std::scoped_lock lock(mutex_);
  fill_ = std::move(fill);
}

void FakeNode::OnDescribe(Memory memory) {
  const std::scoped_lock lock(mutex_);
  memory_ = std::move(memory);
}

proto::FillResult FakeNode::Keep(const BlockId& block) {
  const std::scoped_lock lock(mutex_);
  const bool is_new = kept_.insert(block).second;
  proto::FillResult result;
  result.set_outcome(
      static_cast<std::uint32_t>(is_new ? FillOutcome::kFilled : FillOutcome::kKept));
  return result;
}

std::set<BlockId> FakeNode::kept() const {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

Fence FakeNode::heard() const {
  const std::scoped_lock lock(mutex_);
  return heard_;
}

void FakeNode::Refuse(std::optional<Error> why) {
  const std::scoped_lock lock(mutex_);
  refusal_ = std::move(why);
}

Status FakeNode::Hear(const RpcCall& call) {
  const std::scoped_lock lock(mutex_);
  heard_ = call.peer.fence;
  return refusal_ ? Status(Fail(*refusal_)) : Status();
}

Task<Result<RpcReply>> FakeNode::FillBlocks(RpcCall call) {
  proto::FillBlocksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Fill fill;
  {
    const std::scoped_lock lock(mutex_);
    fill = fill_;
  }
  proto::FillBlocksReply reply;
  for (const proto::FillBlock& block : request.blocks()) {
    ++fills_;
    if (request.spare()) ++spare_fills_;
    if (request.peers_only()) ++peer_fills_;
    const BlockId wanted = FromProto(block.block());
    const proto::FillObject& object = request.objects(static_cast<int>(block.object()));
    *reply.add_results() = fill ? fill(object, wanted) : Keep(wanted);
  }
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> FakeNode::CheckBlocks(RpcCall call) {
  proto::CheckBlocksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (parsed) parsed = Hear(call);
  if (!parsed) co_return Fail(parsed.error());
  proto::CheckBlocksReply reply;
  const auto bytes = static_cast<std::size_t>(request.blocks_size() + 7) / 8;
  std::string present(bytes, holds_everything ? '\xff' : '\0');
  const std::set<BlockId> mine = kept();
  for (int i = 0; i < request.blocks_size(); ++i) {
    if (!mine.contains(FromProto(request.blocks(i)))) continue;
    char& byte = present[static_cast<std::size_t>(i) / 8];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (1U << (i % 8)));
  }
  reply.set_present(std::move(present));
  if (request.with_heat() && heat) {
    for (const proto::BlockKey& key : request.blocks())
      reply.mutable_heat()->push_back(static_cast<char>(heat(FromProto(key))));
  }
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> FakeNode::DescribeBlocks(RpcCall call) {
  proto::DescribeBlocksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::DescribeBlocksReply reply;
  const std::scoped_lock lock(mutex_);
  for (const proto::BlockKey& key : request.blocks()) {
    const BlockId block = FromProto(key);
    proto::BlockDescription& row = *reply.add_blocks();
    if (memory_) row = memory_(block);
    if (kept_.contains(block)) row.set_cached(true);
  }
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> FakeNode::EvictBlocks(RpcCall call) {
  proto::EvictBlocksRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (parsed) parsed = Hear(call);
  if (!parsed) co_return Fail(parsed.error());
  proto::EvictBlocksReply reply;
  if (holds_everything) {
    reply.set_blocks(
        request.whole_link().empty() ? static_cast<std::uint64_t>(request.blocks_size()) : 1000);
    reply.set_bytes(reply.blocks() * 10);
  }
  if (!request.dry_run()) freed_bytes += reply.bytes();
  co_return ReplyWith(reply);
}

Result<proto::RegisterNodeReply> FakeNode::Register(const std::string& coordinator,
                                                    std::string* table) {
  proto::RegisterNodeRequest request;
  proto::NodeInfo& info = *request.mutable_node();
  info.set_id(id);
  info.set_address(advertised.empty() ? address() : advertised);
  info.set_capacity_bytes(capacity);
  request.set_incarnation(incarnation);
  Result<proto::RegisterNodeReply> reply =
      caller_.Ask<proto::RegisterNodeReply>(coordinator, Method::kRegisterNode, request, table);
  if (reply) links_version = reply->links_version();
  return reply;
}

Result<proto::HeartbeatReply> FakeNode::Heartbeat(const std::string& coordinator) {
  proto::HeartbeatRequest request;
  request.set_node_id(id);
  request.set_incarnation(incarnation);
  request.set_links_version(links_version);
  if (!counters.link().empty()) *request.add_links() = counters;
  *request.mutable_changed() = changed;
  constexpr int kDisks = 2;
  constexpr std::uint32_t kQuarantined = 2;
  for (int i = 0; disks && i < kDisks; ++i) {
    proto::DiskReport& disk = *request.add_disks();
    disk.set_path("/disk" + std::to_string(i));
    disk.set_capacity_bytes(capacity / kDisks);
    if (i >= *disks) disk.set_state(kQuarantined);
  }
  return caller_.Ask<proto::HeartbeatReply>(coordinator, Method::kHeartbeat, request);
}

ClusterTest::ClusterTest() {
  std::string pattern = (std::filesystem::temp_directory_path() / "forebay-test-XXXXXX").string();
  dir = ::mkdtemp(pattern.data());
}

ClusterTest::~ClusterTest() {
  StopCoordinator();
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}

Result<std::unique_ptr<Coordinator>> ClusterTest::TryToStart() {
  CoordinatorOptions options;
  options.begin_again = [this] { ++begun_again; };
  options.state_dir = dir / state_name;
  options.leadership = leadership;
  options.listen = "127.0.0.1:0";
  options.program = "forebay-coordinator test";
  options.secret = Secret(secret);
  options.membership = times;
  options.preload_patience = preload_patience;
  options.background_fill = background_fill;
  options.listing.wait = listing_wait;
  options.listing.page_keys = 7;
  options.listing.pages_before_split = 2;
  CoordinatorOrigin origin{
      .store = store,
      .requests = requests,
      .complete = [](LinkOrigin partial, std::optional<bool>) -> Result<LinkOrigin> {
        if (partial.endpoint.empty()) partial.endpoint = "http://127.0.0.1:7480";
        return partial;
      },
      .interrupt = [this] { store.Interrupt(); }};
  return Coordinator::Start(std::move(options), std::move(origin));
}

void ClusterTest::StartCoordinator() {
  Result<std::unique_ptr<Coordinator>> started = TryToStart();
  ASSERT_TRUE(started.has_value()) << started.error().message;
  coordinator = std::move(*started);
}

void ClusterTest::StopCoordinator() {
  if (coordinator) coordinator->Stop();
  coordinator.reset();
}

proto::LinkRequest ClusterTest::LinkRequestFor(const std::string& name,
                                               const std::string& prefix) const {
  proto::LinkRequest request;
  request.set_name(name);
  request.set_bucket("bucket");
  request.set_prefix(prefix);
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  return request;
}

proto::TaskState ClusterTest::WaitForTask(const std::string& id) {
  proto::GetTaskRequest request;
  request.set_id(id);
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  for (;;) {
    Result<proto::TaskState> task =
        admin.Ask<proto::TaskState>(address(), Method::kGetTask, request);
    if (!task) {
      ADD_FAILURE() << task.error().message;
      return {};
    }
    if (task->state() != 0) return *task;
    if (deadline.Expired()) {
      ADD_FAILURE() << "task " << id << " does not end";
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void ClusterTest::MakeLink(const std::string& name, const std::string& prefix) {
  const Result<proto::LinkReply> linked =
      admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor(name, prefix));
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  const proto::TaskState task = WaitForTask(linked->task_id());
  ASSERT_EQ(task.state(), 1u) << task.error();
}

Result<proto::LinkState> ClusterTest::GetLink(const std::string& name) {
  proto::GetLinksRequest request;
  request.set_name(name);
  Result<proto::GetLinksReply> reply =
      client.Ask<proto::GetLinksReply>(address(), Method::kGetLinks, request);
  if (!reply) return Fail(reply.error());
  return reply->links(0);
}

std::string ClusterTest::Backup() {
  std::string bytes;
  proto::BackupRequest request;
  for (;;) {
    request.set_offset(bytes.size());
    std::string piece;
    const auto reply = admin.Ask<proto::BackupReply>(address(), Method::kBackup, request, &piece);
    if (!reply || piece.empty()) {
      ADD_FAILURE() << (reply ? "no bytes" : reply.error().message);
      return bytes;
    }
    bytes += piece;
    request.set_number(reply->number());
    if (bytes.size() == reply->total()) return bytes;
  }
}

Result<proto::RestoreReply> ClusterTest::Restore(const std::string& bytes) {
  proto::UploadNamesRequest part;
  part.set_data(bytes);
  const auto upload = admin.Ask<proto::UploadNamesReply>(address(), Method::kUploadNames, part);
  if (!upload) return Fail(upload.error());
  proto::RestoreRequest request;
  request.set_upload(upload->upload());
  return admin.Ask<proto::RestoreReply>(address(), Method::kRestore, request);
}

}  // namespace forebay
