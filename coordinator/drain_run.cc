#include "coordinator/drain_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>

#include "common/base/executors.h"
#include "common/model/fill_outcome.h"
#include "common/model/limits.h"
#include "common/wire/bit_list.h"
#include "common/wire/messages.h"
#include "coordinator/fill_request.h"

namespace forebay {
namespace {

/// One request to one owner, as of a preload.
constexpr std::size_t kBatchPieces = 64;
constexpr std::uint64_t kBatchBytes = 32ULL << 20;
/// Batches under way: the next one is asked for while the last one is written.
constexpr std::size_t kLanes = 4;
constexpr std::chrono::seconds kAskPatience{10};
/// 32 MiB over a slow network.
constexpr std::chrono::seconds kCopyPatience{60};
/// Before a node that did not answer is asked again.
constexpr std::chrono::seconds kLook{1};
constexpr std::chrono::seconds kRateOver{10};

BlockHeat HeatAt(const proto::CheckBlocksReply& reply, std::size_t i) {
  const std::uint8_t heat =
      i < reply.heat().size() ? static_cast<std::uint8_t>(reply.heat()[i]) : std::uint8_t{0};
  return static_cast<BlockHeat>(std::min(heat, kHottest));
}

std::shared_ptr<proto::CheckBlocksRequest> QuestionAbout(const std::vector<PreloadPiece>& pieces) {
  auto request = std::make_shared<proto::CheckBlocksRequest>();
  for (const PreloadPiece& piece : pieces) *request->add_blocks() = ToProto(piece.block);
  return request;
}

Error Stopped() { return Error{Code::kUnavailable, "the drain was stopped"}; }

}  // namespace

DrainRun::DrainRun(Parts parts, std::string node)
    : parts_(std::move(parts)),
      node_(std::move(node)),
      rate_(parts_.bytes_per_second, Clock::now()) {}

Task<Status> DrainRun::Run() {
  const std::shared_ptr<DrainRun> self = shared_from_this();
  executor_ = co_await asio::this_coro::executor;
  Status done = co_await Work();
  co_return done;
}

Task<Status> DrainRun::Work() {
  Status done = co_await Walk(true, std::nullopt);
  for (std::size_t heat = by_heat_.size(); done && heat-- > 0;) {
    if (by_heat_[heat] == 0) continue;
    done = co_await Walk(false, static_cast<BlockHeat>(heat));
  }
  if (done) done = co_await Sweep();
  co_return done;
}

/// What came meanwhile, changed its heat, or could not be brought: until nothing of it is left.
Task<Status> DrainRun::Sweep() {
  sweeping_ = true;
  TimePoint gained = Clock::now();
  std::uint64_t most = 0;
  for (;;) {
    swept_ = {};
    again_ = 0;
    Status walked = co_await Walk(false, std::nullopt);
    if (!walked) co_return walked;
    // Where no link is listed the walk asks nobody.
    if (stopped_) co_return Fail(Stopped());
    if (again_ == 0) break;
    const Result<std::optional<NodeInfo>> node = FindNode();
    if (!node) co_return Fail(node.error());
    const TimePoint now = Clock::now();
    if (swept_.done > most) gained = now;
    most = std::max(most, swept_.done);
    if (now - gained >= parts_.patience) {
      co_return Fail(
          Code::kUnavailable,
          fmt::format("not all blocks of node {} could be copied: {}", node_, why_again_));
    }
    co_await Pause(kLook);
  }
  progress_ = swept_;
  progress_.total = swept_.done + swept_.not_kept;
  progress_.total_bytes = swept_.bytes + swept_.not_kept_bytes;
  parts_.show(progress_);
  co_return Status();
}

Task<Status> DrainRun::Walk(bool count, std::optional<BlockHeat> heat) {
  auto list = [sources = parts_.sources]() -> Result<Sources> { return sources(); };
  Result<Sources> sources = co_await parts_.offload.Run(std::move(list));
  if (!sources) co_return Fail(sources.error());
  if (!sources->not_listed.empty()) Again(1, std::move(sources->not_listed));
  for (Source& source : sources->listed) {
    Status walked = co_await WalkOne(std::move(source), count, heat);
    if (!walked) co_return walked;
  }
  co_return Status();
}

Task<Status> DrainRun::WalkOne(Source source, bool count, std::optional<BlockHeat> heat) {
  auto walk = std::make_shared<PreloadWalk>(source.plan);
  for (;;) {
    Result<Pieces> next = co_await NextPieces(walk);
    if (!next) co_return Fail(next.error());
    if (next->empty()) co_return Status();
    std::erase_if(*next, [](const PreloadPiece& piece) { return piece.block.length == 0; });
    if (next->empty()) continue;
    auto pieces = std::make_shared<const Pieces>(std::move(*next));
    Result<proto::CheckBlocksReply> held = co_await AskNode(source, pieces);
    if (!held) co_return Fail(held.error());
    if (count) {
      Count(*pieces, *held);
    } else {
      Pieces wanted;
      for (std::size_t i = 0; i < pieces->size(); ++i) {
        const bool fits = !heat || HeatAt(*held, i) == *heat;
        if (fits && IsMarked(held->present(), i)) wanted.push_back((*pieces)[i]);
      }
      co_await Bring(source, std::move(wanted));
    }
    if (stopped_) co_return Fail(Stopped());
    Show();
  }
}

Task<Result<DrainRun::Pieces>> DrainRun::NextPieces(std::shared_ptr<PreloadWalk> walk) {
  for (;;) {
    auto step = [walk] { return walk->Next(kMaxRepeatedFields); };
    Result<Pieces> pieces = co_await parts_.offload.Run(std::move(step));
    // Other work waits for the disk: later.
    if (pieces || pieces.error().code != Code::kOverloaded) co_return pieces;
    co_await Pause(kLook);
    if (stopped_) co_return Fail(Stopped());
  }
}

/// Nothing: it is silent now. An error: there is nothing to drain any more.
Result<std::optional<NodeInfo>> DrainRun::FindNode() const {
  const Roster roster = parts_.roster();
  const auto is_it = [this](const NodeInfo& node) { return node.id == node_; };
  const auto up = std::ranges::find_if(roster.up, is_it);
  if (up != roster.up.end()) {
    if (up->state == NodeState::kDraining) return std::optional<NodeInfo>(*up);
    return Fail(Code::kUnavailable, "node " + node_ + " was taken back");
  }
  if (std::ranges::any_of(roster.absent, is_it)) return std::optional<NodeInfo>();
  return Fail(Code::kUnavailable,
              "node " + node_ + " is out of the cluster: it was not heard any more");
}

Task<Result<proto::CheckBlocksReply>> DrainRun::AskNode(Source source,
                                                        std::shared_ptr<const Pieces> pieces) {
  const std::shared_ptr<proto::CheckBlocksRequest> request = QuestionAbout(*pieces);
  request->set_link(BytesOf(source.link.id));
  request->set_with_heat(true);
  for (;;) {
    if (stopped_) co_return Fail(Stopped());
    Result<std::optional<NodeInfo>> node = FindNode();
    if (!node) co_return Fail(node.error());
    if (node->has_value()) {
      Result<RpcReply> answer = co_await parts_.call(**node, Method::kCheckBlocks, request,
                                                     Deadline::After(kAskPatience));
      proto::CheckBlocksReply reply;
      const Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
      if (good) co_return reply;
    }
    co_await Pause(kLook);
  }
}

void DrainRun::Count(const Pieces& pieces, const proto::CheckBlocksReply& reply) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!IsMarked(reply.present(), i)) continue;
    ++by_heat_[static_cast<std::size_t>(HeatAt(reply, i))];
    ++progress_.total;
    progress_.total_bytes += pieces[i].block.length;
  }
}

std::map<std::string, DrainRun::Batch> DrainRun::ByOwner(const Pieces& pieces) {
  const Roster roster = parts_.roster();
  std::map<std::string, const NodeInfo*> able;
  for (const NodeInfo& node : roster.up) {
    if (node.state == NodeState::kUp && node.id != node_) able.emplace(node.id, &node);
  }
  std::map<std::string, Batch> by_owner;
  for (const PreloadPiece& piece : pieces) {
    const NodeInfo* owner = nullptr;
    for (const std::uint16_t index : roster.ring->OwnersOf(PartitionOf(piece.block))) {
      const auto found = able.find(roster.ring->nodes()[index].id);
      if (found == able.end()) continue;
      owner = found->second;
      break;
    }
    if (owner == nullptr) {
      Again(1, "no owner of them is up");
      continue;
    }
    Batch& batch = by_owner[owner->id];
    batch.owner = *owner;
    batch.pieces.push_back(piece);
  }
  return by_owner;
}

Task<void> DrainRun::Bring(Source source, Pieces pieces) {
  auto flight = std::make_shared<Flight>();
  flight->source = std::move(source);
  std::map<std::string, Batch> by_owner = ByOwner(pieces);
  for (auto& [id, batch] : by_owner) co_await AddMissing(flight, std::move(batch));
  flight->lanes = std::min(kLanes, flight->waiting.size());
  for (std::size_t i = flight->lanes; i > 0; --i) Spawn(executor_, Lane(flight));
  while (flight->lanes > 0 && !stopped_) {
    Notifier::Ticket ticket = flight->ended.Enlist(executor_);
    if (flight->lanes == 0) break;
    // Lanes end by themselves; looked at now and then because of Stop.
    (void)co_await ticket.Wait(Deadline::After(kLook));
    Show();
  }
}

Task<void> DrainRun::AddMissing(FlightPtr flight, Batch all) {
  const std::shared_ptr<proto::CheckBlocksRequest> request = QuestionAbout(all.pieces);
  Result<RpcReply> answer =
      co_await parts_.call(all.owner, Method::kCheckBlocks, request, Deadline::After(kAskPatience));
  proto::CheckBlocksReply reply;
  const Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  if (!good) {
    Again(all.pieces.size(), "node " + all.owner.id + ": " + good.error().message);
    co_return;
  }
  DrainProgress& tally = sweeping_ ? swept_ : progress_;
  Batch batch{.owner = all.owner, .pieces = {}, .bytes = 0};
  for (std::size_t i = 0; i < all.pieces.size(); ++i) {
    const PreloadPiece& piece = all.pieces[i];
    if (IsMarked(reply.present(), i)) {
      ++tally.done;
      tally.bytes += piece.block.length;
      continue;
    }
    const bool full = batch.pieces.size() == kBatchPieces ||
                      (batch.bytes > 0 && batch.bytes + piece.block.length > kBatchBytes);
    if (full) {
      flight->waiting.push_back(std::move(batch));
      batch = Batch{.owner = all.owner, .pieces = {}, .bytes = 0};
    }
    batch.pieces.push_back(piece);
    batch.bytes += piece.block.length;
  }
  if (!batch.pieces.empty()) flight->waiting.push_back(std::move(batch));
}

Task<void> DrainRun::Lane(FlightPtr flight) {
  const std::shared_ptr<DrainRun> self = shared_from_this();
  while (!flight->waiting.empty() && !stopped_) {
    const Duration wait = rate_.Wait(Clock::now());
    if (wait > Duration::zero()) {
      co_await Pause(wait);
      continue;
    }
    Batch batch = std::move(flight->waiting.front());
    flight->waiting.pop_front();
    co_await Copy(flight, std::move(batch));
  }
  if (--flight->lanes == 0) flight->ended.NotifyAll();
}

Task<void> DrainRun::Copy(FlightPtr flight, Batch batch) {
  using Request = std::shared_ptr<proto::FillBlocksRequest>;
  rate_.Take(batch.bytes, Clock::now());
  auto build = [flight, pieces = batch.pieces]() -> Result<Request> {
    return FillRequestFor(flight->source.link, *flight->source.plan->snapshot, pieces);
  };
  Result<Request> request = co_await parts_.offload.Run(std::move(build));
  if (request && !*request) request = Fail(Code::kCorrupt, "the link's listing is damaged");
  if (!request) {
    Again(batch.pieces.size(), request.error().message);
    co_return;
  }
  (*request)->set_peers_only(true);
  const Result<RpcReply> answer = co_await parts_.call(
      batch.owner, Method::kFillBlocks, std::move(*request), Deadline::After(kCopyPatience));
  Take(batch, answer);
}

void DrainRun::Take(const Batch& batch, const Result<RpcReply>& answer) {
  proto::FillBlocksReply reply;
  Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  if (good && static_cast<std::size_t>(reply.results_size()) != batch.pieces.size())
    good = Fail(Code::kInternal, "it answered for other blocks");
  if (!good) {
    Again(batch.pieces.size(), "node " + batch.owner.id + ": " + good.error().message);
    return;
  }
  DrainProgress& tally = sweeping_ ? swept_ : progress_;
  for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
    const proto::FillResult& result = reply.results(static_cast<int>(i));
    const std::uint64_t bytes = batch.pieces[i].block.length;
    switch (static_cast<FillOutcome>(result.outcome())) {
      case FillOutcome::kKept:
      case FillOutcome::kFilled:
        ++tally.done;
        tally.bytes += bytes;
        copied_bytes_ += bytes;
        break;
      case FillOutcome::kNoRoom:
        ++tally.not_kept;
        tally.not_kept_bytes += bytes;
        break;
      case FillOutcome::kFailed:
        // Also when nobody had it any more: the next walk shows whether the node still does.
        Again(1, "node " + batch.owner.id + ": " + result.message());
        break;
    }
  }
}

void DrainRun::Again(std::size_t blocks, std::string why) {
  again_ += blocks;
  why_again_ = std::move(why);
}

void DrainRun::Show() {
  const TimePoint now = Clock::now();
  samples_.emplace_back(now, copied_bytes_);
  while (samples_.size() > 2 && now - samples_.front().first > kRateOver) samples_.pop_front();
  const std::chrono::duration<double> seconds = now - samples_.front().first;
  const auto bytes = static_cast<double>(copied_bytes_ - samples_.front().second);
  progress_.bytes_per_second =
      seconds.count() > 0 ? static_cast<std::uint64_t>(bytes / seconds.count()) : 0;
  // Heat changes while it is walked for: a block may be counted twice until the last walk.
  DrainProgress shown = progress_;
  shown.done = std::min(shown.done, shown.total);
  shown.bytes = std::min(shown.bytes, shown.total_bytes);
  parts_.show(shown);
}

Task<void> DrainRun::Pause(Duration duration) {
  Notifier::Ticket ticket = stopping_.Enlist(executor_);
  if (stopped_) co_return;
  (void)co_await ticket.Wait(Deadline::After(duration));
}

void DrainRun::Stop() {
  stopped_ = true;
  stopping_.NotifyAll();
}

}  // namespace forebay
