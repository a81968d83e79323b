#include "tests/fakes/fake_node.h"

#include <utility>

#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/sample_link.h"

namespace forebay::fakes {

FakeNode::FakeNode(std::string id, std::string secret, std::string listen) : id_(std::move(id)) {
  Credentials credentials;
  credentials.role = proto::ROLE_NODE;
  credentials.id = id_;
  credentials.program = "fake-node";
  credentials.secret = Secret(std::move(secret));
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kReadBlock, [this](RpcCall call) { return AnswerRead(std::move(call)); }});
  methods.push_back(
      {Method::kPrefetchBlock, [this](RpcCall call) { return AnswerPrefetch(std::move(call)); }});
  methods.push_back(
      {Method::kCheckBlocks, [this](RpcCall call) { return AnswerCheck(std::move(call)); }});
  server_ =
      std::make_unique<FakeServer>(std::move(credentials), std::move(listen), std::move(methods));
}

FakeNode::~FakeNode() { Stop(); }

void FakeNode::Stop() {
  Thaw();
  server_->Stop();
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

void FakeNode::Freeze() {
  {
    const std::scoped_lock lock(mutex_);
    frozen_ = true;
  }
  server_->Post([this] {
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
  info.address = server_->address();
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
  ++checks_;
  const auto bytes = static_cast<std::size_t>(request.blocks_size() + 7) / 8;
  proto::CheckBlocksReply message;
  message.set_present(std::string(bytes, holds_all_ ? '\xff' : '\0'));
  co_return ReplyWith(message);
}

}  // namespace forebay::fakes
