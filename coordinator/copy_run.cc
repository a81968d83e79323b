#include "coordinator/copy_run.h"

#include <algorithm>
#include <bit>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <utility>

#include "common/base/executors.h"
#include "common/model/fill_outcome.h"
#include "common/model/limits.h"
#include "common/wire/bit_list.h"
#include "common/wire/messages.h"
#include "coordinator/fill_request.h"

namespace forebay {
namespace {

/// Of one step of the walk: enough for a question to each of many nodes; 48 bytes each.
constexpr std::size_t kStep = 32768;
constexpr std::size_t kBatchPieces = 64;
constexpr std::uint64_t kBatchBytes = 32ULL << 20;
constexpr std::chrono::seconds kAskPatience{10};
/// 32 MiB from a node that copies 1 MiB a second.
constexpr std::chrono::seconds kCopyPatience{60};
constexpr std::chrono::milliseconds kLook{500};

Error Stopped() { return Error{Code::kUnavailable, "it was stopped"}; }

}  // namespace

CopyRun::CopyRun(Parts parts, LinkSpec link, std::shared_ptr<const PreloadPlan> plan)
    : parts_(std::move(parts)), link_(std::move(link)), plan_(std::move(plan)) {}

Task<Result<CopyCounts>> CopyRun::Run() {
  const std::shared_ptr<CopyRun> self = shared_from_this();
  executor_ = co_await asio::this_coro::executor;
  auto walk = std::make_shared<PreloadWalk>(plan_);
  for (;;) {
    Result<Pieces> next = co_await NextPieces(walk);
    if (!next) co_return Fail(next.error());
    if (next->empty()) co_return counts_;
    auto step = std::make_shared<Step>();
    step->pieces = std::move(*next);
    std::erase_if(step->pieces, [](const PreloadPiece& piece) { return piece.block.length == 0; });
    step->seen.resize(step->pieces.size());
    const Parcels asked = PartsOf(step);
    co_await ForEach(step, asked, &CopyRun::Ask);
    co_await ForEach(step, Missing(step, asked), &CopyRun::Copy);
    if (parts_.stopped()) co_return Fail(Stopped());
  }
}

Task<Result<CopyRun::Pieces>> CopyRun::NextPieces(std::shared_ptr<PreloadWalk> walk) {
  for (;;) {
    auto step = [walk] { return walk->Next(kStep); };
    Result<Pieces> pieces = co_await parts_.offload.Run(std::move(step));
    // Other work waits for the disk: later.
    if (pieces || pieces.error().code != Code::kOverloaded) co_return pieces;
    (void)co_await SleepFor(kLook);
    if (parts_.stopped()) co_return Fail(Stopped());
  }
}

/// The owners of each block, and those of before, which may still have it.
CopyRun::Parcels CopyRun::PartsOf(const StepPtr& step) const {
  const Roster roster = parts_.roster();
  std::map<std::string, const NodeInfo*, std::less<>> up;
  for (const NodeInfo& node : roster.up) up.emplace(node.id, &node);
  Parcels parcels;
  const auto add = [&](std::size_t piece, std::string_view id, unsigned bit) {
    const auto found = up.find(id);
    if (found == up.end()) return false;
    Part& part = parcels[found->first];
    part.node = *found->second;
    part.pieces.push_back(static_cast<std::uint32_t>(piece));
    part.bits.push_back(static_cast<std::uint8_t>(bit));
    return true;
  };
  for (std::size_t i = 0; i < step->pieces.size(); ++i) {
    const std::uint32_t partition = PartitionOf(step->pieces[i].block);
    unsigned bit = 1;
    for (const std::uint16_t index : roster.ring->OwnersOf(partition)) {
      const bool is_up = add(i, roster.ring->nodes()[index].id, bit);
      const bool keeps = bit < (1U << link_.replicas);
      if (is_up && keeps)
        step->seen[i].wanted = static_cast<std::uint8_t>(step->seen[i].wanted | bit);
      bit <<= 1;
    }
    for (const PreviousOwner& owner : roster.ring->PreviousOwnersOf(partition)) {
      if (!roster.ring->RankOf(partition, owner.node_id)) (void)add(i, owner.node_id, 0);
    }
  }
  return parcels;
}

Task<void> CopyRun::ForEach(StepPtr step, Parcels parcels,
                            Task<void> (CopyRun::*work)(StepPtr step, Part part)) {
  step->open = parcels.size();
  for (auto& [id, part] : parcels) Spawn(executor_, Do(step, std::move(part), work));
  while (step->open > 0) {
    Notifier::Ticket ticket = step->ended.Enlist(executor_);
    if (step->open == 0) break;
    // Each of them ends by its own deadlines.
    (void)co_await ticket.Wait(Deadline::After(kCopyPatience));
  }
}

Task<void> CopyRun::Do(StepPtr step, Part part,
                       Task<void> (CopyRun::*work)(StepPtr step, Part part)) {
  const std::shared_ptr<CopyRun> self = shared_from_this();
  co_await (this->*work)(step, std::move(part));
  if (--step->open == 0) step->ended.NotifyAll();
}

Task<void> CopyRun::Ask(StepPtr step, Part part) {
  for (std::size_t begin = 0; begin < part.pieces.size() && !parts_.stopped();
       begin += kMaxRepeatedFields) {
    const std::size_t count = std::min<std::size_t>(kMaxRepeatedFields, part.pieces.size() - begin);
    auto request = std::make_shared<proto::CheckBlocksRequest>();
    for (std::size_t i = begin; i < begin + count; ++i)
      *request->add_blocks() = ToProto(step->pieces[part.pieces[i]].block);
    const Result<RpcReply> answer = co_await parts_.call(part.node, Method::kCheckBlocks, request,
                                                         Deadline::After(kAskPatience));
    TakePresence(*step, part, begin, count, answer);
  }
}

void CopyRun::TakePresence(Step& step, const Part& part, std::size_t begin, std::size_t count,
                           const Result<RpcReply>& answer) {
  proto::CheckBlocksReply reply;
  const Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  std::size_t unanswered = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Seen& seen = step.seen[part.pieces[begin + i]];
    const std::uint8_t bit = part.bits[begin + i];
    if (!good) {
      seen.unknown = static_cast<std::uint8_t>(seen.unknown | bit);
      if ((seen.wanted & bit) != 0) ++unanswered;
    } else if (IsMarked(reply.present(), i)) {
      seen.present = static_cast<std::uint8_t>(seen.present | bit);
      seen.cached = true;
    }
  }
  if (!good) NoteFailed(unanswered, "node " + part.node.id + ": " + good.error().message);
}

CopyRun::Parcels CopyRun::Missing(const StepPtr& step, const Parcels& asked) {
  for (const Seen& seen : step->seen) {
    if (!seen.cached) continue;
    ++counts_.blocks;
    counts_.absent += link_.replicas - static_cast<unsigned>(std::popcount(seen.wanted));
  }
  Parcels missing;
  for (const auto& [id, part] : asked) {
    for (std::size_t i = 0; i < part.pieces.size(); ++i) {
      const Seen& seen = step->seen[part.pieces[i]];
      const unsigned lacks = seen.wanted & ~(static_cast<unsigned>(seen.present) | seen.unknown);
      if (!seen.cached || (lacks & part.bits[i]) == 0) continue;
      Part& one = missing[id];
      one.node = part.node;
      one.pieces.push_back(part.pieces[i]);
      ++counts_.missing;
    }
  }
  return missing;
}

Task<void> CopyRun::Copy(StepPtr step, Part part) {
  for (std::size_t next = 0; next < part.pieces.size();) {
    if (parts_.stopped()) co_return;
    Pieces batch;
    std::uint64_t bytes = 0;
    while (next < part.pieces.size() && batch.size() < kBatchPieces) {
      const PreloadPiece& piece = step->pieces[part.pieces[next]];
      bytes += piece.block.length;
      if (!batch.empty() && bytes > kBatchBytes) break;
      batch.push_back(piece);
      ++next;
    }
    co_await CopyBatch(part.node, std::move(batch));
  }
}

Task<void> CopyRun::CopyBatch(NodeInfo node, Pieces pieces) {
  using Request = std::shared_ptr<proto::FillBlocksRequest>;
  const std::size_t blocks = pieces.size();
  auto build = [self = shared_from_this(), pieces = std::move(pieces)]() -> Result<Request> {
    Request made = FillRequestFor(self->link_, *self->plan_->snapshot, pieces);
    if (!made) return Fail(Code::kCorrupt, "the link's listing is damaged");
    return made;
  };
  Result<Request> request = co_await parts_.offload.Run(std::move(build));
  if (!request) {
    NoteFailed(blocks, request.error().message);
    co_return;
  }
  const Result<RpcReply> answer = co_await parts_.call(
      node, Method::kCopyBlocks, std::move(*request), Deadline::After(kCopyPatience));
  TakeCopied(node, blocks, answer);
}

void CopyRun::TakeCopied(const NodeInfo& node, std::size_t blocks, const Result<RpcReply>& answer) {
  proto::FillBlocksReply reply;
  Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  if (good && static_cast<std::size_t>(reply.results_size()) != blocks)
    good = Fail(Code::kInternal, "it answered for other blocks");
  if (!good) {
    NoteFailed(blocks, "node " + node.id + ": " + good.error().message);
    return;
  }
  for (const proto::FillResult& result : reply.results()) {
    switch (static_cast<FillOutcome>(result.outcome())) {
      case FillOutcome::kKept:
      case FillOutcome::kFilled:
        ++counts_.copied;
        break;
      case FillOutcome::kNoRoom:
        ++counts_.no_room;
        break;
      case FillOutcome::kFailed:
        NoteFailed(1, "node " + node.id + ": " + result.message());
        break;
    }
  }
}

void CopyRun::NoteFailed(std::size_t copies, std::string why) {
  counts_.failed += copies;
  counts_.why = std::move(why);
}

}  // namespace forebay
