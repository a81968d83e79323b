#include "coordinator/cache_census.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/model/limits.h"
#include "common/model/record_size.h"
#include "common/wire/bit_list.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::size_t kBatchBlocks = kMaxRepeatedFields;
/// Of 4 MiB each, some seconds of a slow disk: no call takes for ever.
constexpr std::size_t kVerifiedAtOnce = 64;

const char* const kSilent = "suspect: it is silent and was not asked";

Result<proto::CheckBlocksReply> ReadCheck(const Result<RpcReply>& answer, std::size_t blocks) {
  if (!answer) return Fail(answer.error());
  proto::CheckBlocksReply reply;
  Status parsed = ParseMessage(answer->message, reply);
  if (!parsed) return Fail(parsed.error());
  if (reply.present().size() < (blocks + 7) / 8)
    return Fail(Code::kCorrupt, "its answer is too short");
  return reply;
}

void AddEvicted(proto::NodeEvicted& sum, const Result<RpcReply>& answer) {
  proto::EvictBlocksReply reply;
  Status parsed;
  if (answer) {
    parsed = ParseMessage(answer->message, reply);
  } else {
    parsed = Fail(answer.error());
  }
  if (!parsed) {
    sum.set_error(parsed.error().message);
    return;
  }
  sum.set_blocks(sum.blocks() + reply.blocks());
  sum.set_bytes(sum.bytes() + reply.bytes());
  sum.set_pinned_blocks(sum.pinned_blocks() + reply.pinned_blocks());
  sum.set_pinned_bytes(sum.pinned_bytes() + reply.pinned_bytes());
  sum.set_room_version(reply.room_version());
}

/// A row for each node, first those that are asked.
std::vector<proto::NodeEvicted> SumsOf(const Roster& roster) {
  std::vector<proto::NodeEvicted> sums;
  for (const NodeInfo& node : roster.up) sums.emplace_back().set_node_id(node.id);
  for (const NodeInfo& node : roster.absent) {
    proto::NodeEvicted& sum = sums.emplace_back();
    sum.set_node_id(node.id);
    sum.set_error(std::string(kSilent) + "; its blocks stay");
  }
  return sums;
}

std::shared_ptr<proto::EvictBlocksRequest> NewEviction(const EvictRules& rules) {
  auto request = std::make_shared<proto::EvictBlocksRequest>();
  request->set_unused_for_hours(rules.unused_for_hours);
  request->set_dry_run(rules.dry_run);
  return request;
}

template <typename Message>
void AddBlocks(Message& message, const std::vector<WalkedBlock>& blocks) {
  message.mutable_blocks()->Reserve(static_cast<int>(blocks.size()));
  for (const WalkedBlock& block : blocks) *message.add_blocks() = ToProto(block.id);
}

}  // namespace

/// What the answers say about the blocks of one walk, batch by batch.
class CacheCensus::Presence {
 public:
  explicit Presence(Roster roster) : ring_(std::move(roster.ring)), asked_(std::move(roster.up)) {
    for (const NodeInfo& node : roster.absent) Lose(node.id, kSilent);
  }

  const std::vector<NodeInfo>& asked() const { return asked_; }
  std::vector<proto::UnknownNode> TakeUnknown() { return std::move(unknown_); }

  void Begin(std::size_t blocks) {
    cached_.assign(blocks, false);
    set_aside_.assign(blocks, false);
  }

  /// The answer of the node with this id.
  void Take(const std::string& node, const Result<RpcReply>& answer) {
    const Result<proto::CheckBlocksReply> reply = ReadCheck(answer, cached_.size());
    if (!reply) {
      std::erase_if(asked_, [&](const NodeInfo& one) { return one.id == node; });
      Lose(node, reply.error().message);
      return;
    }
    for (std::size_t i = 0; i < cached_.size(); ++i) {
      if (IsMarked(reply->present(), i)) cached_[i] = true;
      if (IsMarked(reply->set_aside(), i)) set_aside_[i] = true;
    }
  }

  /// Adds the batch to the tallies; remembers across batches whether the object at hand is
  /// complete.
  void Count(const std::vector<WalkedBlock>& blocks, std::vector<CacheTally>& tallies) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      CacheTally& tally = tallies[blocks[i].root];
      if (cached_[i]) {
        ++tally.cached_blocks;
        tally.cached_bytes += blocks[i].id.length;
        tally.cached_disk_bytes += BlockDiskBytes(blocks[i].id.length);
      } else {
        complete_ = false;
        if (set_aside_[i]) ++tally.set_aside_blocks;
        if (MayBeElsewhere(blocks[i].id)) {
          ++tally.unknown_blocks;
          tally.unknown_bytes += blocks[i].id.length;
        }
      }
      if (!blocks[i].ends_object) continue;
      if (complete_) ++tally.cached_objects;
      complete_ = true;
    }
  }

 private:
  void Lose(const std::string& node, std::string reason) {
    proto::UnknownNode& row = unknown_.emplace_back();
    row.set_node_id(node);
    row.set_reason(std::move(reason));
  }

  /// True when a lost node is an owner of the block; counted for the first such node.
  bool MayBeElsewhere(const BlockId& block) {
    if (unknown_.empty()) return false;
    const std::uint32_t partition = PartitionOf(block);
    for (const std::uint16_t owner : ring_->OwnersOf(partition)) {
      if (CountFor(ring_->nodes()[owner].id)) return true;
    }
    const auto previous = ring_->PreviousOwnersOf(partition);
    return std::ranges::any_of(previous,
                               [this](const PreviousOwner& one) { return CountFor(one.node_id); });
  }

  bool CountFor(const std::string& node) {
    const auto row = std::ranges::find(unknown_, node, &proto::UnknownNode::node_id);
    if (row == unknown_.end()) return false;
    row->set_blocks(row->blocks() + 1);
    return true;
  }

  const std::shared_ptr<const RingTable> ring_;
  std::vector<NodeInfo> asked_;
  std::vector<proto::UnknownNode> unknown_;
  std::vector<bool> cached_;
  std::vector<bool> set_aside_;
  bool complete_ = true;
};

Task<Result<CacheCensus::Blocks>> CacheCensus::NextBlocks(Walk walk, std::size_t limit) {
  auto step = [walk, limit] { return walk->Next(limit); };
  Result<std::vector<WalkedBlock>> next = co_await offload_.Run(std::move(step));
  if (!next) co_return Fail(next.error());
  co_return std::make_shared<std::vector<WalkedBlock>>(std::move(*next));
}

Task<void> CacheCensus::Look(Blocks blocks, std::shared_ptr<Presence> presence, Deadline deadline) {
  auto request = std::make_shared<proto::CheckBlocksRequest>();
  AddBlocks(*request, *blocks);
  const std::vector<NodeInfo> nodes = presence->asked();
  std::vector<Result<RpcReply>> answers =
      co_await AskAll(call_, nodes, Method::kCheckBlocks, std::move(request), deadline);
  presence->Begin(blocks->size());
  for (std::size_t n = 0; n < answers.size(); ++n) presence->Take(nodes[n].id, answers[n]);
}

Task<Result<CacheCount>> CacheCensus::Count(std::shared_ptr<const Snapshot> snapshot,
                                            std::vector<SnapshotRow> roots, Roster roster,
                                            Deadline deadline) {
  auto walk = std::make_shared<BlockWalk>(std::move(snapshot), std::move(roots));
  auto presence = std::make_shared<Presence>(std::move(roster));
  for (;;) {
    Result<Blocks> blocks = co_await NextBlocks(walk, kBatchBlocks);
    if (!blocks) co_return Fail(blocks.error());
    if ((*blocks)->empty()) break;
    co_await Look(*blocks, presence, deadline);
    presence->Count(**blocks, walk->tallies());
  }
  CacheCount count{.tallies = std::move(walk->tallies()), .unknown = presence->TakeUnknown()};
  co_return count;
}

Task<Result<VerifyCount>> CacheCensus::Verify(std::shared_ptr<const Snapshot> snapshot,
                                              SnapshotRow root, Roster roster, Deadline deadline) {
  std::vector<SnapshotRow> roots = {root};
  auto walk = std::make_shared<BlockWalk>(std::move(snapshot), std::move(roots));
  VerifyCount count;
  for (;;) {
    Result<Blocks> blocks = co_await NextBlocks(walk, kVerifiedAtOnce);
    if (!blocks) co_return Fail(blocks.error());
    if ((*blocks)->empty()) break;
    auto request = std::make_shared<proto::VerifyBlocksRequest>();
    AddBlocks(*request, **blocks);
    std::vector<Result<RpcReply>> answers =
        co_await AskAll(call_, roster.up, Method::kVerifyBlocks, std::move(request), deadline);
    for (std::size_t n = 0; n < answers.size(); ++n) {
      proto::VerifyBlocksReply reply;
      Status read =
          answers[n] ? ParseMessage(answers[n]->message, reply) : Fail(answers[n].error());
      if (!read) co_return Fail(read.error().Within("node " + roster.up[n].id + " verifies"));
      count.verified += reply.verified();
      count.corrupt += reply.corrupt();
    }
  }
  co_return count;
}

Task<Result<std::vector<proto::NodeEvicted>>> CacheCensus::Evict(
    std::shared_ptr<const Snapshot> snapshot, SnapshotRow root, Roster roster, EvictRules rules,
    Deadline deadline) {
  std::vector<SnapshotRow> roots = {root};
  auto walk = std::make_shared<BlockWalk>(std::move(snapshot), std::move(roots));
  std::vector<proto::NodeEvicted> sums = SumsOf(roster);
  for (;;) {
    Result<Blocks> blocks = co_await NextBlocks(walk, kBatchBlocks);
    if (!blocks) co_return Fail(blocks.error());
    if ((*blocks)->empty()) break;
    auto request = NewEviction(rules);
    AddBlocks(*request, **blocks);
    // A node that failed once is not asked again: its report is an error already.
    std::vector<NodeInfo> asked;
    std::vector<std::size_t> places;
    for (std::size_t n = 0; n < roster.up.size(); ++n) {
      if (!sums[n].error().empty()) continue;
      asked.push_back(roster.up[n]);
      places.push_back(n);
    }
    std::vector<Result<RpcReply>> answers =
        co_await AskAll(call_, asked, Method::kEvictBlocks, std::move(request), deadline);
    for (std::size_t i = 0; i < answers.size(); ++i) AddEvicted(sums[places[i]], answers[i]);
  }
  co_return sums;
}

Task<std::vector<proto::NodeEvicted>> CacheCensus::EvictLink(Uuid link, Roster roster,
                                                             EvictRules rules, Deadline deadline) {
  auto request = NewEviction(rules);
  request->set_whole_link(BytesOf(link));
  std::vector<Result<RpcReply>> answers =
      co_await AskAll(call_, roster.up, Method::kEvictBlocks, std::move(request), deadline);
  std::vector<proto::NodeEvicted> sums = SumsOf(roster);
  for (std::size_t n = 0; n < answers.size(); ++n) AddEvicted(sums[n], answers[n]);
  co_return sums;
}

}  // namespace forebay
