#include "tests/component/cachenode/node_fixture.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "tests/fakes/sample_link.h"

namespace forebay {

bool Eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (!condition()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Caller::Caller(proto::Role role, Fence fence) {
  ClientPoolOptions options;
  options.credentials.role = role;
  options.credentials.id = "test";
  options.credentials.program = "test 0";
  options.credentials.secret = Secret(kTestSecret);
  options.credentials.fence = fence;
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), options, [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  io_.Start();
}

Caller::~Caller() { io_.Stop(); }

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

NodeTest::NodeTest() : coordinator_(std::make_unique<fakes::NodeCoordinator>(kTestSecret)) {
  link_.id = Uuid::Random();
  link_.name = "data";
  link_.origin.bucket = "bucket";
  link_.origin.prefix = "data/";
  link_.origin.endpoint = "http://127.0.0.1:7480";
  link_.domain = Uuid::Random();
  link_.block_bytes = kBlock;
  coordinator_->SetLinks({link_});
  coordinators_ = {coordinator_->address()};
}

NodeTest::~NodeTest() { StopNode(); }

Result<std::unique_ptr<Node>> NodeTest::TryStart(std::stop_token stopping) {
  NodeOptions options;
  for (const std::string& name : caches_)
    options.store.dirs.push_back(CacheDirOptions{dir_ / name, capacity_bytes_});
  options.store.segment_bytes = 16ULL << 20;
  options.store.hour = [this, hour = options.store.hour()] { return hour + hours_later_; };
  options.state_dir = dir_ / "state";
  options.accept_new_disk = accept_new_disk_;
  options.coordinators = coordinators_;
  options.listen = "127.0.0.1:0";
  options.node_id = node_id_;
  options.zone = "z1";
  options.local_socket = dir_ / "node.sock";
  options.program = "forebay-node test";
  options.secret = Secret(kTestSecret);
  options.threads = 2;
  options.filler.s3_timeout = s3_timeout_;
  options.filler.look_again = std::chrono::milliseconds(20);
  options.disks = disks_;
  options.pins = pins_;
  options.verify_bytes_per_s = verify_bytes_per_s_;
  options.copy_bytes_per_s = copy_bytes_per_s_;
  options.max_bandwidth = max_bandwidth_;
  options.memory_limit = memory_limit_;
  NodeOrigin origin{.store = s3_, .interrupt = [this] { s3_.Interrupt(); }};
  return Node::Start(std::move(options), std::move(origin), metrics_, std::move(stopping));
}

void NodeTest::StartNode() {
  s3_.Resume();
  Result<std::unique_ptr<Node>> node = TryStart();
  ASSERT_TRUE(node.has_value()) << node.error().message;
  node_ = std::move(*node);
}

void NodeTest::StopNode() {
  if (node_) node_->Stop(Deadline::After(std::chrono::seconds(10)));
  node_.reset();
}

proto::ReadBlockRequest NodeTest::RequestFor(const std::string& key, std::uint64_t size,
                                             std::uint64_t n) const {
  proto::ReadBlockRequest request;
  request.set_link(BytesOf(link_.id));
  const std::string etag = fakes::SampleLink::EtagOf(key);
  const ObjectVersion version = VersionOf(link_, key, etag, size);
  const BlockId block = BlockAt(version, size, link_.block_bytes, n * link_.block_bytes);
  *request.mutable_block() = ToProto(block);
  request.set_range_end(block.length);
  request.set_key(key);
  request.set_etag(etag);
  request.set_object_size(size);
  request.set_job("job");
  return request;
}

Result<RpcReply> NodeTest::Call(Caller& caller, Method method,
                                const google::protobuf::MessageLite& request) {
  return caller.Call(node_->address(), method, request);
}

Result<Tier> NodeTest::Read(const proto::ReadBlockRequest& request) {
  Result<RpcReply> reply = Call(client_, Method::kReadBlock, request);
  if (!reply) return Fail(reply.error());
  proto::ReadBlockReply message;
  const Status parsed = ParseMessage(reply->message, message);
  if (!parsed) return Fail(parsed.error());
  Cells cells;
  cells.begin = message.begin();
  cells.bytes = reply->payload;
  cells.checksums.assign(message.checksums().begin(), message.checksums().end());
  if (!cells.Verify()) return Fail(Code::kCorrupt, "the checksums do not match");
  const BlockRange wanted =
      EnclosingCells({request.range_begin(), request.range_end()}, request.block().length());
  const auto truth = fakes::SampleLink::Bytes(
      request.key(), request.block().offset() + wanted.begin, wanted.size());
  if (cells.begin != wanted.begin || cells.bytes.bytes.size() != wanted.size() ||
      std::memcmp(truth->data(), cells.bytes.bytes.data(), wanted.size()) != 0) {
    return Fail(Code::kCorrupt, "these are not the bytes that were asked for");
  }
  return static_cast<Tier>(message.tier());
}

bool NodeTest::FillsEnd() {
  return Eventually([this] {
    return metrics_.Render().find("forebay_fills_in_flight 0\n") != std::string::npos;
  });
}

bool NodeTest::IsCached(const proto::BlockKey& block) {
  proto::CheckBlocksRequest request;
  *request.add_blocks() = block;
  const Result<RpcReply> reply = Call(admin_, Method::kCheckBlocks, request);
  proto::CheckBlocksReply message;
  if (!reply || !ParseMessage(reply->message, message) || message.present().size() != 1) {
    ADD_FAILURE() << "the node does not say what it holds";
    return false;
  }
  return message.present() == "\x01";
}

proto::LinkCounters NodeTest::Reported() const {
  for (const proto::LinkCounters& counters : coordinator_->last_heartbeat().links()) {
    if (counters.link() == BytesOf(link_.id)) return counters;
  }
  return {};
}

}  // namespace forebay
