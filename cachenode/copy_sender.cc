#include "cachenode/copy_sender.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/ring/ring.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

/// A block waits with its key and ETag, some 300 bytes: 10 MiB at most.
constexpr std::size_t kMostWaiting = 32768;
/// Of one request. Few bytes, so that it ends in time at a node that copies slowly.
constexpr std::size_t kBatchBlocks = 64;
constexpr std::uint64_t kBatchBytes = 8ULL << 20;
constexpr std::chrono::seconds kPatience{60};

std::shared_ptr<proto::FillBlocksRequest> RequestFor(const std::vector<ColdBlock>& blocks) {
  auto request = std::make_shared<proto::FillBlocksRequest>();
  request->set_link(BytesOf(blocks.front().link->id));
  for (const ColdBlock& cold : blocks) {
    proto::FillBlock& block = *request->add_blocks();
    *block.mutable_block() = ToProto(cold.block);
    block.set_object(static_cast<std::uint32_t>(request->objects_size()));
    proto::FillObject& object = *request->add_objects();
    object.set_key(cold.object.key);
    object.set_etag(cold.object.etag);
    object.set_size(cold.object.size);
  }
  return request;
}

}  // namespace

CopySender::CopySender(CopySenderOptions options, ClusterView& cluster)
    : options_(std::move(options)), cluster_(cluster) {
  ClientPoolOptions pool;
  pool.credentials = options_.credentials;
  pool.silence = options_.silence;
  pool.connect_timeout = options_.silence;
  // A newer table reaches this node with its heartbeats.
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); }, [](std::uint64_t) {});
}

CopySender::~CopySender() { Stop(); }

void CopySender::Start() { io_.Start(); }

void CopySender::Interrupt() {
  if (stopped_.exchange(true)) return;
  asio::post(io_.At(0), [this] { pool_->Close(); });
}

void CopySender::Stop() {
  Interrupt();
  io_.Stop();
  pool_.reset();
}

void CopySender::Add(const ColdBlock& cold, bool from_peer) {
  const std::size_t copies = cold.link->replicas;
  if (copies < 2 || stopped_) return;
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  const std::uint32_t partition = PartitionOf(cold.block);
  const auto own = table->RankOf(partition, options_.self);
  if (!own || *own >= copies || (from_peer && *own > 0)) return;
  const std::span<const std::uint16_t> owners = table->OwnersOf(partition);
  for (std::size_t rank = 0; rank < std::min(copies, owners.size()); ++rank) {
    if (rank == *own) continue;
    const NodeInfo& node = table->nodes()[owners[rank]];
    if (node.state == NodeState::kUp) {
      Enqueue(node.id, cold);
    } else {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

void CopySender::Enqueue(const std::string& node, const ColdBlock& cold) {
  const std::scoped_lock lock(mutex_);
  if (waiting_ >= kMostWaiting) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Lane& lane = lanes_[node];
  lane.queue.push_back(cold);
  ++waiting_;
  if (std::exchange(lane.sends, true)) return;
  Spawn(io_.At(0), Send(node));
}

std::size_t CopySender::waiting() const {
  const std::scoped_lock lock(mutex_);
  return waiting_;
}

CopySender::Blocks CopySender::NextBatch(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  Lane& lane = lanes_[node];
  Blocks batch;
  std::uint64_t bytes = 0;
  while (!lane.queue.empty() && batch.size() < kBatchBlocks && !stopped_) {
    ColdBlock& next = lane.queue.front();
    bytes += next.block.length;
    const bool fits =
        batch.empty() || (next.link->id == batch.front().link->id && bytes <= kBatchBytes);
    if (!fits) break;
    batch.push_back(std::move(next));
    lane.queue.pop_front();
  }
  waiting_ -= batch.size();
  if (batch.empty()) {
    waiting_ -= lane.queue.size();
    lanes_.erase(node);
  }
  return batch;
}

Task<void> CopySender::Send(std::string node) {
  for (;;) {
    Blocks batch = NextBatch(node);
    if (batch.empty()) co_return;
    const std::size_t blocks = batch.size();
    const Status told = co_await Tell(node, std::move(batch));
    if (told) continue;
    dropped_.fetch_add(blocks, std::memory_order_relaxed);
    if (stopped_) continue;
    spdlog::warn("node {} does not copy {} blocks: {}; they are looked for later", node, blocks,
                 told.error().message);
    // What waits for one that is gone would only wait for the same.
    if (told.error().code == Code::kUnavailable) LetGo(node);
  }
}

Task<Status> CopySender::Tell(std::string node, Blocks blocks) {
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  const NodeInfo* target = table->Find(node);
  if (target == nullptr) co_return Fail(Code::kUnavailable, "it has left the ring");
  const auto request = RequestFor(blocks);
  const std::string address = target->address;
  const Result<RpcReply> reply =
      co_await pool_->Call(address, Method::kCopyBlocks, *request, Deadline::After(kPatience));
  if (!reply) co_return Fail(reply.error());
  co_return Status();
}

void CopySender::LetGo(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  Lane& lane = lanes_[node];
  dropped_.fetch_add(lane.queue.size(), std::memory_order_relaxed);
  waiting_ -= lane.queue.size();
  lane.queue.clear();
}

}  // namespace forebay
