#include "coordinator/preload_run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <random>

#include "common/base/executors.h"
#include "common/wire/messages.h"
#include "common/wire/status_map.h"
#include "coordinator/fill_request.h"

namespace forebay {
namespace {

/// Pieces of one step of the walk.
constexpr std::size_t kStep = 2048;
/// Pieces that wait for a batch before the walk goes on: some batches for each of many nodes.
constexpr std::size_t kEnoughWaiting = 16384;
/// Pieces between the first without an outcome and the end of the walk so far, at most: a node that
/// hangs must not make the coordinator's memory grow.
constexpr std::size_t kMostOpen = 262144;
constexpr std::chrono::milliseconds kTickEvery{500};
constexpr std::chrono::seconds kSaveEvery{2};
constexpr std::chrono::seconds kRateOver{10};
/// A node waits for S3 as long as we are patient; then it still has to answer.
constexpr std::chrono::seconds kWayBack{30};

/// Failures that a later try may not have.
bool MayPass(Code code) {
  switch (code) {
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kTimeout:
      return true;
    case Code::kNotFound:
    case Code::kStale:
    case Code::kCorrupt:
    case Code::kDenied:
    case Code::kInvalid:
    case Code::kInternal:
      return false;
  }
  return false;
}

/// Never 0.
std::uint64_t NewNumber() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) | 1;
}

std::shared_ptr<proto::FillBlocksRequest> RequestFor(const PreloadOrder& order, std::uint64_t run,
                                                     const std::vector<WantedPiece>& wanted) {
  std::vector<PreloadPiece> pieces;
  pieces.reserve(wanted.size());
  for (const WantedPiece& one : wanted) pieces.push_back(one.piece);
  auto request = FillRequestFor(order.link, *order.plan->snapshot, pieces);
  if (!request) return nullptr;
  request->set_verify(order.verify);
  request->set_spare(order.spare);
  request->set_run(run);
  return request;
}

}  // namespace

PreloadRun::PreloadRun(Parts parts, PreloadOrder order)
    : parts_(std::move(parts)),
      order_(std::move(order)),
      walk_(std::make_shared<PreloadWalk>(order_.plan)),
      to_skip_(order_.from.cursor),
      number_(NewNumber()),
      ledger_(order_.from),
      rate_(order_.bytes_per_second, Clock::now()) {}

Task<Status> PreloadRun::Run() {
  const std::shared_ptr<PreloadRun> self = shared_from_this();
  executor_ = co_await asio::this_coro::executor;
  Status done = co_await Work();
  ended_ = true;
  co_await parts_.save(ledger_.checkpoint(), ledger_.TakeFailed());
  co_return done;
}

Task<Status> PreloadRun::Work() {
  for (;;) {
    if (stopped_) co_return Fail(Code::kUnavailable, "the preload was stopped");
    const TimePoint now = Clock::now();
    if (now >= next_tick_) {
      Status ticked = co_await Tick(now);
      if (!ticked) co_return ticked;
    }
    lanes_.AddDue(now);
    if (!Enough()) {
      Status refilled = co_await Refill();
      if (!refilled) co_return refilled;
      Dispatch(Clock::now());
    }
    for (WantedPiece& piece : lanes_.TakeUnplaced()) {
      PutOffOrFail(piece, "no node is up that owns it", now);
    }
    const bool over = Enough() || (walked_ && ledger_.open() == 0);
    if (over && lanes_.in_flight() == 0) co_return Status();
    co_await Pause(Clock::now());
  }
}

Task<Status> PreloadRun::Refill() {
  while (!walked_ && !stopped_ && lanes_.waiting() < kEnoughWaiting && ledger_.open() < kMostOpen) {
    auto step = [walk = walk_, skip = to_skip_]() -> Result<std::vector<PreloadPiece>> {
      Status skipped = walk->Skip(skip);
      if (!skipped) return Fail(skipped.error());
      return walk->Next(kStep);
    };
    Result<std::vector<PreloadPiece>> pieces = co_await parts_.offload.Run(std::move(step));
    // Other work waits for the disk: later.
    if (!pieces && pieces.error().code == Code::kOverloaded) co_return Status();
    if (!pieces) co_return Fail(pieces.error());
    to_skip_ = 0;
    walked_ = pieces->empty();
    const TimePoint now = Clock::now();
    for (const PreloadPiece& piece : *pieces) {
      const std::uint64_t number = ledger_.Add(piece);
      if (piece.block.length == 0) {
        ledger_.Settle(number, FillOutcome::kKept);
      } else {
        lanes_.Add(WantedPiece{.number = number, .piece = piece, .first_asked = {}}, now);
      }
    }
    // The first batches leave before the walk has gone far.
    Dispatch(now);
  }
  co_return Status();
}

bool PreloadRun::Enough() const {
  if (full_) return true;
  if (order_.until_bytes == 0) return false;
  const std::uint64_t fetched = ledger_.counts().fetched_bytes - order_.from.counts.fetched_bytes;
  return order_.cached_bytes + fetched >= order_.until_bytes;
}

std::uint64_t PreloadRun::BytesWanted() const {
  if (order_.until_bytes == 0) return PreloadLanes::kBatchBytes;
  const std::uint64_t fetched = ledger_.counts().fetched_bytes - order_.from.counts.fetched_bytes;
  const std::uint64_t there = order_.cached_bytes + fetched + lanes_.bytes_in_flight();
  return order_.until_bytes > there ? order_.until_bytes - there : 0;
}

void PreloadRun::Dispatch(TimePoint now) {
  while (BytesWanted() > 0 && rate_.Wait(now) <= Duration::zero()) {
    const std::uint64_t most = rate_.BatchBytes(BytesWanted());
    std::optional<PieceBatch> batch = lanes_.NextBatch(most, now);
    if (!batch) return;
    rate_.Take(batch->bytes, now);
    BeginSend(std::move(*batch));
  }
}

void PreloadRun::BeginSend(PieceBatch batch) {
  const std::uint64_t number = next_send_++;
  const auto cancel = std::make_shared<asio::cancellation_signal>();
  cancels_.emplace(number, cancel);
  Spawn(executor_, Send(std::move(batch)), cancel->slot(),
        [self = shared_from_this(), cancel, number] { self->cancels_.erase(number); });
}

Task<void> PreloadRun::Send(PieceBatch batch) {
  const std::shared_ptr<PreloadRun> self = shared_from_this();
  auto sent = std::make_shared<PieceBatch>(std::move(batch));
  const Result<RpcReply> answer = co_await Ask(sent);
  if (ended_ || stopped_) co_return;
  Take(std::move(*sent), answer, Clock::now());
  changed_.NotifyAll();
}

Task<Result<RpcReply>> PreloadRun::Ask(std::shared_ptr<PieceBatch> batch) {
  using Request = std::shared_ptr<proto::FillBlocksRequest>;
  const std::shared_ptr<PreloadRun> self = shared_from_this();
  auto build = [self, batch]() -> Result<Request> {
    return RequestFor(self->order_, self->number_, batch->pieces);
  };
  Result<Request> request = co_await parts_.offload.Run(std::move(build));
  if (!request) co_return Fail(request.error());
  if (!*request) co_return Fail(Code::kCorrupt, "the link's listing is damaged");
  const Deadline deadline = Deadline::After(parts_.patience + kWayBack);
  Result<RpcReply> reply =
      co_await parts_.call(batch->node, Method::kFillBlocks, std::move(*request), deadline);
  co_return reply;
}

void PreloadRun::Take(PieceBatch batch, const Result<RpcReply>& answer, TimePoint now) {
  const std::uint64_t fetched_before = ledger_.counts().fetched_bytes;
  proto::FillBlocksReply reply;
  Status good;
  if (answer) {
    good = ParseMessage(answer->message, reply);
    const auto results = static_cast<std::size_t>(reply.results_size());
    if (good && results != batch.pieces.size())
      good = Fail(Code::kInternal, "node " + batch.node.id + " answered for other blocks");
  } else {
    good = Fail(answer.error());
  }
  const Code code = good ? Code::kInternal : good.error().code;
  if (!good && (code == Code::kUnavailable || code == Code::kTimeout)) {
    lanes_.Unanswered(batch, now);
  } else {
    lanes_.Answered(batch);
  }
  // A node that has not heard of the link yet will.
  const bool again = !good && (MayPass(code) || code == Code::kNotFound);
  if (good) NoteRoom(batch.node.id, reply);
  for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
    WantedPiece& piece = batch.pieces[i];
    if (good) {
      TakeResult(piece, reply.results(static_cast<int>(i)), now);
    } else if (again) {
      PutOffOrFail(piece, "node " + batch.node.id + ": " + good.error().message, now);
    } else {
      ledger_.Settle(piece.number, FillOutcome::kFailed,
                     "node " + batch.node.id + ": " + good.error().message);
    }
  }
  const std::uint64_t fetched = ledger_.counts().fetched_bytes - fetched_before;
  rate_.GiveBack(batch.bytes - std::min(batch.bytes, fetched));
}

void PreloadRun::NoteRoom(const std::string& node, const proto::FillBlocksReply& reply) {
  if (!order_.spare) return;
  const bool refused = std::ranges::any_of(reply.results(), [](const proto::FillResult& result) {
    return result.outcome() == static_cast<std::uint32_t>(FillOutcome::kNoRoom);
  });
  // For good: batches are answered in any order, and room that comes back is for those who read.
  if (refused) full_nodes_.insert(node);
  full_ = full_ || (!up_.empty() && std::ranges::includes(full_nodes_, up_));
}

void PreloadRun::TakeResult(WantedPiece piece, const proto::FillResult& result, TimePoint now) {
  switch (static_cast<FillOutcome>(result.outcome())) {
    case FillOutcome::kKept:
    case FillOutcome::kFilled:
    case FillOutcome::kNoRoom:
      quota_bound_ = quota_bound_ || result.over_quota();
      ledger_.Settle(piece.number, static_cast<FillOutcome>(result.outcome()));
      return;
    case FillOutcome::kFailed:
      break;
  }
  if (MayPass(CodeOfWire(static_cast<std::uint8_t>(result.code())))) {
    PutOffOrFail(piece, result.message(), now);
  } else {
    ledger_.Settle(piece.number, FillOutcome::kFailed, result.message());
  }
}

void PreloadRun::PutOffOrFail(WantedPiece piece, std::string reason, TimePoint now) {
  if (!order_.spare && piece.first_asked && now - *piece.first_asked >= parts_.patience) {
    ledger_.Settle(piece.number, FillOutcome::kFailed, std::move(reason));
  } else {
    lanes_.AddLater(piece, now);
  }
}

Task<Status> PreloadRun::Tick(TimePoint now) {
  next_tick_ = now + kTickEvery;
  const Nodes nodes = parts_.nodes();
  lanes_.SetNodes(nodes.ring, nodes.up, now);
  up_.clear();
  for (const NodeInfo& node : nodes.up) up_.insert(node.id);
  samples_.emplace_back(now, ledger_.counts().bytes);
  while (samples_.size() > 2 && now - samples_.front().first > kRateOver) samples_.pop_front();
  if (!parts_.show(progress())) co_return Fail(Code::kNotFound, "the link was removed");
  if (now < next_save_) co_return Status();
  next_save_ = now + kSaveEvery;
  co_await parts_.save(ledger_.checkpoint(), ledger_.TakeFailed());
  co_return Status();
}

PreloadProgress PreloadRun::progress() const {
  PreloadProgress progress{
      .counts = ledger_.counts(), .bytes_per_second = 0, .quota_bound = quota_bound_};
  if (samples_.size() < 2) return progress;
  const std::chrono::duration<double> seconds = samples_.back().first - samples_.front().first;
  const auto bytes = static_cast<double>(samples_.back().second - samples_.front().second);
  if (seconds.count() > 0) {
    progress.bytes_per_second = static_cast<std::uint64_t>(bytes / seconds.count());
  }
  return progress;
}

/// Until an answer comes, or it is time to look again.
Task<void> PreloadRun::Pause(TimePoint now) {
  TimePoint until = next_tick_;
  const Duration rate = rate_.Wait(now);
  if (rate > Duration::zero()) until = std::min(until, now + rate);
  Notifier::Ticket ticket = changed_.Enlist(executor_);
  if (stopped_) co_return;
  (void)co_await ticket.Wait(Deadline(until));
}

void PreloadRun::Stop() {
  stopped_ = true;
  // A call that is cancelled is cancelled at its node, which begins nothing more for it.
  const auto cancels = cancels_;
  for (const auto& [number, cancel] : cancels) cancel->emit(asio::cancellation_type::terminal);
  changed_.NotifyAll();
}

}  // namespace forebay
