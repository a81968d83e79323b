#include "coordinator/cache_census.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/model/limits.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

constexpr std::size_t kBatchBlocks = kMaxRepeatedFields;

/// The answers of one AskAll as they come in.
struct Gathering {
  std::vector<std::optional<Result<RpcReply>>> answers;
  std::size_t missing = 0;
  Notifier arrived;
};

Task<void> AskOne(NodeCaller call, NodeInfo node, Method method,
                  std::shared_ptr<const google::protobuf::MessageLite> request, Deadline deadline,
                  std::shared_ptr<Gathering> gathering, std::size_t index) {
  Result<RpcReply> reply = co_await call(std::move(node), method, std::move(request), deadline);
  gathering->answers[index] = std::move(reply);
  if (--gathering->missing == 0) gathering->arrived.NotifyAll();
}

/// Adds one batch of answers to the tallies; remembers across batches whether the object at hand is
/// complete.
class Counter {
 public:
  void Count(const std::vector<WalkedBlock>& blocks, const std::vector<bool>& present,
             std::vector<CacheTally>& tallies) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      CacheTally& tally = tallies[blocks[i].root];
      if (present[i]) {
        ++tally.cached_blocks;
        tally.cached_bytes += blocks[i].id.length;
      } else {
        complete_ = false;
      }
      if (!blocks[i].ends_object) continue;
      if (complete_) ++tally.cached_objects;
      complete_ = true;
    }
  }

 private:
  bool complete_ = true;
};

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
}

std::vector<proto::NodeEvicted> SumsOf(const std::vector<NodeInfo>& nodes) {
  std::vector<proto::NodeEvicted> sums(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) sums[i].set_node_id(nodes[i].id);
  return sums;
}

template <typename Message>
void AddBlocks(Message& message, const std::vector<WalkedBlock>& blocks) {
  message.mutable_blocks()->Reserve(static_cast<int>(blocks.size()));
  for (const WalkedBlock& block : blocks) *message.add_blocks() = ToProto(block.id);
}

}  // namespace

Task<std::vector<Result<RpcReply>>> CacheCensus::AskAll(std::vector<NodeInfo> nodes, Method method,
                                                        Request request, Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto gathering = std::make_shared<Gathering>();
  gathering->answers.resize(nodes.size());
  gathering->missing = nodes.size();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Spawn(executor, AskOne(call_, nodes[i], method, request, deadline, gathering, i));
  }
  while (gathering->missing != 0) {
    Notifier::Ticket ticket = gathering->arrived.Enlist(executor);
    if (gathering->missing == 0) break;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) break;
  }
  std::vector<Result<RpcReply>> answers;
  answers.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (gathering->answers[i]) {
      answers.push_back(std::move(*gathering->answers[i]));
    } else {
      answers.push_back(Fail(Code::kTimeout, "node " + nodes[i].id + " did not answer in time"));
    }
  }
  co_return answers;
}

Task<Result<std::vector<bool>>> CacheCensus::Present(
    std::shared_ptr<std::vector<WalkedBlock>> blocks, std::vector<NodeInfo> nodes,
    Deadline deadline) {
  auto request = std::make_shared<proto::CheckBlocksRequest>();
  AddBlocks(*request, *blocks);
  std::vector<Result<RpcReply>> answers =
      co_await AskAll(nodes, Method::kCheckBlocks, request, deadline);
  std::vector<bool> present(blocks->size(), false);
  for (std::size_t n = 0; n < answers.size(); ++n) {
    const std::string who = "asking node " + nodes[n].id + " what it holds";
    if (!answers[n]) co_return Fail(answers[n].error().Within(who));
    proto::CheckBlocksReply reply;
    Status parsed = ParseMessage(answers[n]->message, reply);
    if (!parsed) co_return Fail(parsed.error().Within(who));
    const std::string& bits = reply.present();
    if (bits.size() < (blocks->size() + 7) / 8) {
      co_return Fail(Code::kCorrupt, who + ": its answer is too short");
    }
    for (std::size_t i = 0; i < blocks->size(); ++i) {
      const auto byte = static_cast<unsigned char>(bits[i / 8]);
      if (((byte >> (i % 8)) & 1) != 0) present[i] = true;
    }
  }
  co_return present;
}

Task<Result<std::vector<CacheTally>>> CacheCensus::Count(std::shared_ptr<const Snapshot> snapshot,
                                                         std::vector<SnapshotRow> roots,
                                                         std::vector<NodeInfo> nodes,
                                                         Deadline deadline) {
  auto walk = std::make_shared<BlockWalk>(std::move(snapshot), std::move(roots));
  Counter counter;
  for (;;) {
    auto step = [walk] { return walk->Next(kBatchBlocks); };
    Result<std::vector<WalkedBlock>> next = co_await offload_.Run(std::move(step));
    if (!next) co_return Fail(next.error());
    if (next->empty()) break;
    auto blocks = std::make_shared<std::vector<WalkedBlock>>(std::move(*next));
    Result<std::vector<bool>> present = co_await Present(blocks, nodes, deadline);
    if (!present) co_return Fail(present.error());
    counter.Count(*blocks, *present, walk->tallies());
  }
  co_return std::move(walk->tallies());
}

Task<Result<std::vector<proto::NodeEvicted>>> CacheCensus::Evict(
    std::shared_ptr<const Snapshot> snapshot, SnapshotRow root, std::vector<NodeInfo> nodes,
    Deadline deadline) {
  std::vector<SnapshotRow> roots = {root};
  auto walk = std::make_shared<BlockWalk>(std::move(snapshot), std::move(roots));
  std::vector<proto::NodeEvicted> sums = SumsOf(nodes);
  for (;;) {
    auto step = [walk] { return walk->Next(kBatchBlocks); };
    Result<std::vector<WalkedBlock>> blocks = co_await offload_.Run(std::move(step));
    if (!blocks) co_return Fail(blocks.error());
    if (blocks->empty()) break;
    auto request = std::make_shared<proto::EvictBlocksRequest>();
    AddBlocks(*request, *blocks);
    // A node that failed once is not asked again: its report is an error already.
    std::vector<NodeInfo> asked;
    std::vector<std::size_t> places;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (!sums[n].error().empty()) continue;
      asked.push_back(nodes[n]);
      places.push_back(n);
    }
    std::vector<Result<RpcReply>> answers =
        co_await AskAll(asked, Method::kEvictBlocks, request, deadline);
    for (std::size_t i = 0; i < answers.size(); ++i) AddEvicted(sums[places[i]], answers[i]);
  }
  co_return sums;
}

Task<std::vector<proto::NodeEvicted>> CacheCensus::EvictLink(Uuid link, std::vector<NodeInfo> nodes,
                                                             Deadline deadline) {
  auto request = std::make_shared<proto::EvictBlocksRequest>();
  request->set_whole_link(
      std::string(reinterpret_cast<const char*>(link.bytes.data()), link.bytes.size()));
  std::vector<Result<RpcReply>> answers =
      co_await AskAll(nodes, Method::kEvictBlocks, request, deadline);
  std::vector<proto::NodeEvicted> sums = SumsOf(nodes);
  for (std::size_t n = 0; n < answers.size(); ++n) AddEvicted(sums[n], answers[n]);
  co_return sums;
}

}  // namespace forebay
