#include "coordinator/explainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/model/limits.h"
#include "common/ring/ring.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

/// More are not described: 4 GiB of blocks of 4 MiB.
constexpr std::size_t kMostBlocks = 1024;
/// Of the reply; the rest of the frame is for what does not grow with the blocks.
constexpr std::size_t kMostBytes = kMaxControlFrameBytes * 3 / 4;
/// S3 has a part of the time, so that its silence does not cost the rest of the answer.
constexpr std::chrono::seconds kS3MayTake{5};

/// ObjectNow.state.
enum class Now : std::uint8_t { kAsListed = 0, kOther = 1, kGone = 2, kUnknown = 3 };

std::string NameOf(const LinkSpec& link, const std::string& path) {
  return path.empty() ? link.name : link.name + "/" + path;
}

proto::ExplainReply Describe(const LocatedTarget& target, const std::string& path) {
  const Snapshot& snapshot = *target.snapshot;
  proto::ExplainReply reply;
  reply.set_link(target.link.name);
  reply.set_path(path);
  reply.set_bucket(target.link.origin.bucket);
  reply.set_key(snapshot.KeyOf(target.row));
  reply.set_generation(snapshot.id().generation);
  reply.set_listed_unix_s(static_cast<std::int64_t>(snapshot.listed_unix_s()));
  reply.set_size(target.row.size);
  reply.set_etag(snapshot.EtagOf(target.row));
  reply.set_mtime_s(target.row.mtime_unix_s);
  reply.set_archived(target.row.archived);
  reply.set_immutable(target.link.refresh == RefreshPolicy::kImmutable);
  reply.set_priority(static_cast<std::int32_t>(target.link.priority));
  const std::uint64_t block_bytes = snapshot.block_bytes();
  reply.set_blocks((target.row.size + block_bytes - 1) / block_bytes);
  return reply;
}

std::vector<BlockId> FirstBlocks(const LocatedTarget& target) {
  const Snapshot& snapshot = *target.snapshot;
  const ObjectVersion version = snapshot.VersionOf(target.row);
  std::vector<BlockId> blocks;
  std::uint64_t offset = 0;
  while (offset < target.row.size && blocks.size() < kMostBlocks) {
    blocks.push_back(BlockAt(version, target.row.size, snapshot.block_bytes(), offset));
    offset += blocks.back().length;
  }
  return blocks;
}

void AddOwners(const BlockId& block, const RingTable& ring, proto::ExplainedBlock& row) {
  row.set_offset(block.offset);
  row.set_length(block.length);
  if (ring.empty()) return;
  const std::uint32_t partition = PartitionOf(block);
  for (const std::uint16_t owner : ring.OwnersOf(partition)) row.add_owners(ring.nodes()[owner].id);
  for (const PreviousOwner& previous : ring.PreviousOwnersOf(partition)) {
    proto::EarlierOwner& earlier = *row.add_earlier();
    earlier.set_node_id(previous.node_id);
    earlier.set_until_epoch(previous.until_epoch);
    earlier.set_left_unix_s(previous.left_unix_s);
  }
}

void AddSilent(const std::string& node, const std::string& reason, proto::ExplainReply& reply) {
  proto::UnknownNode& row = *reply.add_silent();
  row.set_node_id(node);
  row.set_reason(reason);
}

Status AddAnswer(const std::string& node, const Result<RpcReply>& answer,
                 proto::ExplainReply& reply) {
  if (!answer) return Fail(answer.error());
  proto::DescribeBlocksReply known;
  Status parsed = ParseMessage(answer->message, known);
  if (!parsed) return parsed;
  if (known.blocks_size() != reply.described_size())
    return Fail(Code::kCorrupt, "its answer is about other blocks");
  for (int i = 0; i < known.blocks_size(); ++i) {
    const proto::BlockDescription& block = known.blocks(i);
    proto::ExplainedBlock& row = *reply.mutable_described(i);
    const bool owner = row.owners_size() > 0 && row.owners(0) == node;
    if (!owner && !block.cached() && block.read_unix_s() == 0 && block.lost_unix_s() == 0) continue;
    proto::BlockAtNode& place = *row.add_nodes();
    place.set_node_id(node);
    place.set_cached(block.cached());
    place.set_since_unix_s(block.since_unix_s());
    place.set_read_unix_s(block.read_unix_s());
    place.set_job(block.job());
    place.set_lost_unix_s(block.lost_unix_s());
    place.set_loss(block.loss());
  }
  return {};
}

/// So that the reply fits into its frame, however long the names are.
void DropLastBlocks(proto::ExplainReply& reply) {
  std::size_t bytes = 0;
  int fit = 0;
  while (fit < reply.described_size()) {
    bytes += reply.described(fit).ByteSizeLong() + 4;
    if (bytes > kMostBytes) break;
    ++fit;
  }
  while (reply.described_size() > fit) reply.mutable_described()->RemoveLast();
}

}  // namespace

Task<Result<proto::ExplainReply>> Explainer::Explain(LocatedTarget target, Roster roster,
                                                     Deadline deadline) {
  const std::string path = target.snapshot->PathOf(target.row);
  if (target.row.is_directory()) {
    co_return Fail(Code::kInvalid,
                   fmt::format("'{}' is a folder, and explain tells of one file: `forebay ls "
                               "--cached {}` shows its files",
                               NameOf(target.link, path), NameOf(target.link, path)));
  }
  proto::ExplainReply reply = Describe(target, path);
  AddPins(target, path, reply);
  reply.set_ring_epoch(roster.ring->epoch());
  std::vector<BlockId> blocks = FirstBlocks(target);
  for (const BlockId& block : blocks) AddOwners(block, *roster.ring, *reply.add_described());
  const Deadline nodes_deadline = deadline.AtMost(kSilence);
  co_await AskNodes(std::move(blocks), std::move(roster), nodes_deadline, reply);
  DropLastBlocks(reply);
  const Deadline s3_deadline = deadline.AtMost(kS3MayTake);
  co_await AskS3(target.link.origin, s3_deadline, reply);
  reply.set_s3_requests_per_s(requests_.LimitOf(target.link.origin));
  co_return reply;
}

void Explainer::AddPins(const LocatedTarget& target, const std::string& path,
                        proto::ExplainReply& reply) const {
  for (const proto::PinRecord& pin : pins_.All()) {
    if (UuidFromBytes(pin.link()) != target.link.id) continue;
    const bool whole_link = pin.path().empty();
    const std::string rule = pin.folder() && !whole_link ? pin.path() + "/" : pin.path();
    if (!PinsCover({rule}, path)) continue;
    proto::ExplainedPin& row = *reply.add_pins();
    row.set_target(NameOf(target.link, pin.path()));
    row.set_until_unix_s(pin.until_unix_s());
    row.set_job(pin.job());
  }
}

Task<void> Explainer::AskNodes(std::vector<BlockId> blocks, Roster roster, Deadline deadline,
                               proto::ExplainReply& reply) {
  if (blocks.empty()) co_return;
  for (const NodeInfo& node : roster.absent)
    AddSilent(node.id, "suspect: it is silent and was not asked", reply);
  auto request = std::make_shared<proto::DescribeBlocksRequest>();
  for (const BlockId& block : blocks) *request->add_blocks() = ToProto(block);
  const std::vector<Result<RpcReply>> answers =
      co_await AskAll(call_, roster.up, Method::kDescribeBlocks, std::move(request), deadline);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Status added = AddAnswer(roster.up[i].id, answers[i], reply);
    if (!added) AddSilent(roster.up[i].id, added.error().message, reply);
  }
}

Task<void> Explainer::AskS3(LinkOrigin origin, Deadline deadline, proto::ExplainReply& reply) {
  HeadRequest asked{.origin = std::move(origin), .key = reply.key()};
  const Result<ObjectHead> head = co_await store_.Head(std::move(asked), deadline);
  proto::ObjectNow& now = *reply.mutable_now();
  Now state = Now::kAsListed;
  if (head) {
    now.set_etag(head->etag);
    now.set_size(head->size);
    now.set_mtime_s(head->mtime_s);
    if (head->etag != reply.etag() || head->size != reply.size()) state = Now::kOther;
  } else {
    state = head.error().code == Code::kNotFound ? Now::kGone : Now::kUnknown;
    now.set_message(head.error().message);
  }
  now.set_state(static_cast<std::uint32_t>(state));
}

}  // namespace forebay
