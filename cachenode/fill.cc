#include "cachenode/fill.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <utility>

namespace forebay {

bool Fill::AddWish() {
  int wishes = wishes_.load(std::memory_order_relaxed);
  while (wishes != kGivenUp) {
    if (wishes_.compare_exchange_weak(wishes, wishes + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool Fill::GiveUp() {
  int wishes = 0;
  return wishes_.compare_exchange_strong(wishes, kGivenUp, std::memory_order_relaxed) ||
         wishes == kGivenUp;
}

void Fill::Want(BlockRange cells) {
  const std::scoped_lock lock(mutex_);
  if (!first_cells_ || cells.begin < first_cells_->begin) first_cells_ = cells;
}

BlockRange Fill::first_cells() const {
  const std::scoped_lock lock(mutex_);
  return first_cells_.value_or(Whole());
}

void Fill::Hold(MemoryBudget::Reservation memory) {
  const std::scoped_lock lock(mutex_);
  unused_memory_ = std::move(memory);
}

void Fill::StartOver() {
  const std::scoped_lock lock(mutex_);
  unused_memory_.Release();
  memory_.reset();
  part_ = Whole();
  received_ = 0;
  std::ranges::fill(cells_, CellState::kUntouched);
}

void Fill::MarkGet() {
  const std::scoped_lock lock(mutex_);
  costs_get_ = true;
}

void Fill::MarkOwnGet() {
  const std::scoped_lock lock(mutex_);
  costs_get_ = true;
  asks_s3_ = true;
}

void Fill::AskOthers(bool asks) {
  {
    const std::scoped_lock lock(mutex_);
    asks_s3_ = !asks;
  }
  if (asks) progress_.NotifyAll();
}

bool Fill::asks_s3() const {
  const std::scoped_lock lock(mutex_);
  return asks_s3_;
}

bool Fill::is_from_peer() const {
  const std::scoped_lock lock(mutex_);
  return !costs_get_ && memory_;
}

void Fill::BeginPart(BlockRange part) {
  const std::scoped_lock lock(mutex_);
  part_ = part;
}

void Fill::OnAttempt() {
  const std::scoped_lock lock(mutex_);
  held_back_ = false;
  received_ = 0;
  const auto first = static_cast<std::ptrdiff_t>(part_.begin / kCellBytes);
  const auto last = static_cast<std::ptrdiff_t>((part_.end + kCellBytes - 1) / kCellBytes);
  const bool is_used = std::any_of(cells_.begin() + first, cells_.begin() + last,
                                   [](CellState cell) { return cell != CellState::kUntouched; });
  if (memory_ && !is_used) return;
  std::fill(cells_.begin() + first, cells_.begin() + last, CellState::kUntouched);
  TakeFreshBuffer();
}

/// With the cells that are there.
void Fill::TakeFreshBuffer() {
  auto fresh = std::make_shared<Memory>();
  // A second attempt takes over the first one's reservation; readers that still hold the first
  // buffer are few and brief.
  fresh->reservation = memory_ ? std::move(memory_->reservation) : std::move(unused_memory_);
  fresh->bytes = Buffer(block_.length);
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (cells_[cell] != CellState::kThere) {
      cells_[cell] = CellState::kUntouched;
      continue;
    }
    const std::uint64_t begin = cell * kCellBytes;
    const std::uint64_t size = std::min<std::uint64_t>(kCellBytes, block_.length - begin);
    std::memcpy(fresh->bytes.data() + begin, memory_->bytes.data() + begin, size);
  }
  memory_ = std::move(fresh);
}

void Fill::HoldBack() {
  const std::scoped_lock lock(mutex_);
  held_back_ = true;
}

void Fill::OnData(ByteView bytes) {
  bool cell_ended = false;
  {
    const std::scoped_lock lock(mutex_);
    std::byte* data = memory_->bytes.data();
    const std::uint64_t from = part_.begin + received_;
    std::memcpy(data + from, bytes.data(), bytes.size());
    received_ += static_cast<std::uint32_t>(bytes.size());
    const std::uint64_t until = part_.begin + received_;
    for (std::size_t cell = from / kCellBytes; cell * kCellBytes < until; ++cell) {
      const std::uint64_t begin = cell * kCellBytes;
      const std::uint64_t end = std::min<std::uint64_t>(begin + kCellBytes, block_.length);
      cells_[cell] = end <= until ? CellState::kThere : CellState::kBegun;
      if (end > until) break;
      checksums_[cell] = CellChecksum(data + begin, end - begin);
      cell_ended = true;
    }
  }
  if (cell_ended) progress_.NotifyAll();
}

bool Fill::IsWhole() const {
  return std::ranges::all_of(cells_, [](CellState cell) { return cell == CellState::kThere; });
}

Status Fill::Verdict(Status status) const {
  const std::scoped_lock lock(mutex_);
  if (!status || (memory_ && IsWhole())) return status;
  return Fail(Code::kCorrupt, "block " + block_.ToString() + " ended early");
}

void Fill::LandsAs(Result<FillOutcome> outcome) {
  const std::scoped_lock lock(mutex_);
  lands_as_ = std::move(outcome);
}

Status Fill::Finish(Status status) {
  status = Verdict(std::move(status));
  std::optional<Result<FillOutcome>> landed;
  {
    const std::scoped_lock lock(mutex_);
    ended_ = status;
    landed = lands_as_;
  }
  if (!landed && !status) landed = Fail(status.error());
  if (landed) landing_->Set(*std::move(landed));
  progress_.NotifyAll();
  return status;
}

void FillLanding::Set(Result<FillOutcome> outcome) {
  {
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
  }
  landed_.NotifyAll();
}

Task<Result<FillOutcome>> FillLanding::Wait(std::shared_ptr<FillLanding> landing,
                                            Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = landing->landed_.Enlist(executor);
    {
      const std::scoped_lock lock(landing->mutex_);
      if (landing->outcome_) co_return *landing->outcome_;
    }
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified)
      co_return Fail(Code::kTimeout,
                     "S3 did not bring block " + landing->block_.ToString() + " in time");
  }
}

std::optional<Result<Cells>> Fill::TryRead(BlockRange range) const {
  const BlockRange cells = EnclosingCells(range, block_.length);
  const std::scoped_lock lock(mutex_);
  if (ended_ && !*ended_) return Fail(ended_->error());
  if (held_back_ && !ended_) return std::nullopt;
  const std::size_t first = cells.begin / kCellBytes;
  const std::size_t last = (cells.end + kCellBytes - 1) / kCellBytes;
  for (std::size_t cell = first; cell < last; ++cell)
    if (cells_[cell] != CellState::kThere) return std::nullopt;
  Cells answer;
  answer.begin = cells.begin;
  answer.bytes = Slice{memory_, memory_->bytes.view().subspan(cells.begin, cells.size())};
  answer.checksums.assign(checksums_.begin() + static_cast<std::ptrdiff_t>(first),
                          checksums_.begin() + static_cast<std::ptrdiff_t>(last));
  answer.tier = costs_get_ ? Tier::kS3 : Tier::kPeer;
  read_bytes_ += range.size();
  return answer;
}

bool Fill::TakeReadThrough() const {
  const std::scoped_lock lock(mutex_);
  if (read_bytes_ < block_.length) return false;
  read_bytes_ %= block_.length;
  return true;
}

Task<Result<Cells>> Fill::Wait(BlockRange range, Deadline deadline, bool for_node) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = progress_.Enlist(executor);
    std::optional<Result<Cells>> answer = TryRead(range);
    if (answer) co_return std::move(*answer);
    if (for_node && !asks_s3())
      co_return Fail(Code::kOverloaded, "this node looks for the block at other nodes");
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified)
      co_return Fail(Code::kTimeout, "block " + block_.ToString() + " did not come in time");
  }
}

Slice Fill::Data() const {
  const std::scoped_lock lock(mutex_);
  return Slice{memory_, memory_->bytes.view()};
}

std::vector<std::uint64_t> Fill::Checksums() const {
  const std::scoped_lock lock(mutex_);
  return checksums_;
}

}  // namespace forebay
