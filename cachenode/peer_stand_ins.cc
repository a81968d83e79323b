// How the other owners of a block come to ask S3 for it in this node's place.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "cachenode/peer_source.h"
#include "common/ring/ring.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

// Between two questions to a node that is still looking for the block itself.
constexpr std::chrono::milliseconds kAskAgain{20};

}  // namespace

// Silent ones are left out: whoever waits for this has waited for S3 already.
std::vector<const NodeInfo*> PeerSource::StandInsFor(const ColdBlock& cold,
                                                     const RingTable& table) const {
  std::vector<const NodeInfo*> nodes;
  for (const std::uint16_t index : table.OwnersOf(PartitionOf(cold.block))) {
    const NodeInfo& node = table.nodes()[index];
    if (node.id != options_.self && !health_.IsSilent(node.id)) nodes.push_back(&node);
  }
  return nodes;
}

bool PeerSource::MayStandIn(const ColdBlock& cold) const {
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  return !stopped_ && !StandInsFor(cold, *table).empty();
}

Task<Result<PeerFind>> PeerSource::GetByStandIn(ColdBlock cold, PeerSink& sink, Deadline deadline) {
  Question question{std::move(cold), &sink, deadline, {}};
  Result<PeerFind> find =
      co_await asio::co_spawn(io_.At(0), AskStandIns(std::move(question)), asio::use_awaitable);
  co_return find;
}

Task<Result<PeerFind>> PeerSource::AskStandIns(Question question) {
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  const std::vector<const NodeInfo*> nodes = StandInsFor(question.cold, *table);
  // As long as such a node may wait for an owner before it, and a little more.
  const Deadline patience = question.deadline.AtMost(options_.silence + options_.going_on);
  for (bool is_one_looking = true; is_one_looking;) {
    is_one_looking = false;
    for (const NodeInfo* node : nodes) {
      if (stopped_ || question.deadline.Expired()) co_return PeerFind();
      const Status got = co_await AskStandIn(&question, node);
      if (got) co_return PeerFind{.found = true};
      if (got.error().code == Code::kStale) co_return Fail(got.error());
      is_one_looking = is_one_looking || got.error().code == Code::kOverloaded;
    }
    if (patience.Expired()) break;
    if (is_one_looking) co_await SleepFor(kAskAgain);
  }
  co_return PeerFind();
}

Task<Status> PeerSource::AskStandIn(const Question* question, const NodeInfo* node) {
  const std::pair key(node->id, question->cold.link->id);
  std::erase_if(unwilling_, [](const auto& row) { return Clock::now() >= row.second; });
  if (unwilling_.contains(key))
    co_return Fail(Code::kNotFound, "S3 does not serve node " + node->id + " either");
  const Deadline briefly = question->deadline.AtMost(options_.going_on);
  const Deadline patiently = question->deadline.AtMost(options_.silence);
  for (bool began = false;;) {
    const Result<proto::PrefetchBlockReply> told = co_await TellToGet(question, node, true);
    if (!told) co_return Fail(told.error());
    began = began || told->started();
    const Status got = told->refused()
                           ? Fail(Code::kTimeout, "S3 does not serve node " + node->id + " either")
                           : co_await Fetch(question, node);
    const Code code = got ? Code::kNotFound : got.error().code;
    if (code == Code::kTimeout) unwilling_[key] = Clock::now() + options_.unwilling;
    // Where it has begun because of us, another one would read the block a second time.
    if (code != Code::kOverloaded || (began ? patiently : briefly).Expired()) co_return got;
    co_await SleepFor(kAskAgain);
  }
}

}  // namespace forebay
