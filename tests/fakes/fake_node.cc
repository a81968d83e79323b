#include "tests/fakes/fake_node.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <stdexcept>
#include <utility>

#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/sample_link.h"

namespace forebay::fakes {

FakeNode::FakeNode(std::string id, std::string secret, std::string listen) : id_(std::move(id)) {
  RpcServerOptions options;
  options.listen = {std::move(listen)};
  options.credentials.role = proto::ROLE_NODE;
  options.credentials.id = id_;
  options.credentials.program = "fake-node";
  options.credentials.secret = Secret(std::move(secret));
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kReadBlock, [this](RpcCall call) { return AnswerRead(std::move(call)); }});
  methods.push_back(
      {Method::kPrefetchBlock, [this](RpcCall call) { return AnswerPrefetch(std::move(call)); }});
  methods.push_back(
      {Method::kGetRing, [this](RpcCall call) { return AnswerRing(std::move(call)); }});
  methods.push_back(
      {Method::kCheckBlocks, [this](RpcCall call) { return AnswerCheck(std::move(call)); }});
  pool_.Start();
  server_ = std::make_unique<RpcServer>(
      pool_, std::move(options), std::move(methods), [this] { return epoch_.load(); },
      [](std::uint64_t) {});
  const Status started = server_->Start();
  if (!started) throw std::runtime_error(started.error().message);
  address_ = server_->addresses().front();
}

FakeNode::~FakeNode() { Stop(); }

void FakeNode::Stop() {
  Thaw();
  if (!server_) return;
  server_->Stop(Deadline::After({}));
  // The port is closed by a turn of the event loop.
  std::promise<void> closed;
  asio::post(pool_.At(0), [&closed] { closed.set_value(); });
  closed.get_future().wait();
  pool_.Stop();
  server_.reset();
}

RpcReply FakeNode::RightAnswer(const proto::ReadBlockRequest& request) {
  const std::uint32_t length = request.block().length();
  const BlockRange cells = EnclosingCells({request.range_begin(), request.range_end()}, length);
  const auto bytes =
      SampleLink::Bytes(request.key(), request.block().offset() + cells.begin, cells.size());
  proto::ReadBlockReply message;
  message.set_begin(cells.begin);
  for (std::size_t at = 0; at < bytes->size(); at += kCellBytes) {
    message.add_checksums(
        CellChecksum(bytes->data() + at, std::min<std::size_t>(kCellBytes, bytes->size() - at)));
  }
  message.set_tier(static_cast<std::uint32_t>(Tier::kLocal));
  RpcReply reply;
  reply.message = message.SerializeAsString();
  reply.payload = Slice::Of(bytes);
  return reply;
}

void FakeNode::OnRead(Read script) {
  const std::scoped_lock lock(mutex_);
  script_ = std::move(script);
}

void FakeNode::OnPrefetch(std::function<bool(const proto::ReadBlockRequest&)> refuses) {
  const std::scoped_lock lock(mutex_);
  refuses_ = std::move(refuses);
}

void FakeNode::SetRing(RingTable table) {
  const std::scoped_lock lock(mutex_);
  epoch_ = table.epoch();
  ring_ = std::move(table);
}

void FakeNode::Freeze() {
  {
    const std::scoped_lock lock(mutex_);
    frozen_ = true;
  }
  asio::post(pool_.At(0), [this] {
    std::unique_lock lock(mutex_);
    thawed_.wait(lock, [this] { return !frozen_; });
  });
}

void FakeNode::Thaw() {
  {
    const std::scoped_lock lock(mutex_);
    frozen_ = false;
  }
  thawed_.notify_all();
}

NodeInfo FakeNode::Info() const {
  NodeInfo info;
  info.id = id_;
  info.address = address_;
  info.capacity_bytes = 1ULL << 40;
  return info;
}

std::vector<proto::ReadBlockRequest> FakeNode::prefetches() const {
  const std::scoped_lock lock(mutex_);
  return prefetches_;
}

Task<Result<RpcReply>> FakeNode::AnswerRead(RpcCall call) {
  ++reads_;
  proto::ReadBlockRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Read script;
  {
    const std::scoped_lock lock(mutex_);
    script = script_;
  }
  if (!script) co_return RightAnswer(request);
  Answer answer = script(std::move(request));
  co_await SleepFor(answer.after);
  co_return std::move(answer.reply);
}

Task<Result<RpcReply>> FakeNode::AnswerPrefetch(RpcCall call) {
  proto::ReadBlockRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  proto::PrefetchBlockReply message;
  message.set_refused(refuses_ && refuses_(request));
  message.set_started(refuses_ && !message.refused());
  prefetches_.push_back(std::move(request));
  co_return ReplyWith(message);
}

Task<Result<RpcReply>> FakeNode::AnswerCheck(RpcCall call) {
  proto::CheckBlocksRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const auto bytes = static_cast<std::size_t>(request.blocks_size() + 7) / 8;
  proto::CheckBlocksReply message;
  message.set_present(std::string(bytes, holds_all_ ? '\xff' : '\0'));
  co_return ReplyWith(message);
}

Task<Result<RpcReply>> FakeNode::AnswerRing(RpcCall call) {
  ++ring_questions_;
  proto::GetRingRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  RpcReply reply;
  proto::GetRingReply message;
  message.set_epoch(ring_.epoch());
  reply.message = message.SerializeAsString();
  if (ring_.epoch() > request.have_epoch()) {
    const std::string bytes = ring_.Serialize();
    auto buffer = std::make_shared<Buffer>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(buffer->data()));
    reply.payload = Slice::Of(std::move(buffer));
  }
  co_return reply;
}

}  // namespace forebay::fakes
