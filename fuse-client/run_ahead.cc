#include "fuse-client/run_ahead.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/executors.h"

namespace forebay {

namespace {

/// Where the piece that begins at `offset` of the object ends, in it.
std::uint64_t EndOf(std::uint64_t offset, const BlockId& block) {
  return std::min(offset + HeldPieces::kPieceBytes, block.offset + block.length);
}

/// As long as anything is held, for which nobody may come.
Task<void> Sweep(std::shared_ptr<HeldPieces> pieces) {
  do {
    co_await SleepFor(HeldPieces::kHeldFor);
    pieces->DropOlder(Clock::now() - HeldPieces::kHeldFor);
  } while (!pieces->EndSweep());
}

}  // namespace

std::shared_ptr<HeldPieces::Piece> HeldPieces::Find(const BlockId& block, BlockRange range) const {
  const Key key = KeyOf(block, range.begin);
  if (block.offset + range.end > EndOf(key.offset, block)) return nullptr;
  std::scoped_lock lock(mutex_);
  const auto found = pieces_.find(key);
  return found == pieces_.end() ? nullptr : found->second;
}

std::shared_ptr<HeldPieces::Piece> HeldPieces::Begin(const Key& key, MemoryBudget& memory,
                                                     std::size_t bytes, TimePoint now) {
  std::scoped_lock lock(mutex_);
  if (pieces_.contains(key)) return nullptr;
  if (pieces_.size() >= kPiecesMax) DropOlderLocked(now - kHeldFor);
  if (pieces_.size() >= kPiecesMax) return nullptr;
  if (memory.in_use() + bytes > memory.limit() / 2) return nullptr;
  Result<MemoryBudget::Reservation> reserved = memory.TryReserve(bytes);
  if (!reserved) return nullptr;
  auto piece = std::make_shared<Piece>();
  piece->memory = std::move(*reserved);
  pieces_.emplace(key, piece);
  ++counts_.begun;
  return piece;
}

void HeldPieces::Land(const Key& key, const std::shared_ptr<Piece>& piece, Result<Cells> cells,
                      TimePoint now) {
  {
    std::scoped_lock lock(mutex_);
    const auto found = pieces_.find(key);
    if (!cells && found != pieces_.end() && found->second == piece) {
      pieces_.erase(found);
      ++counts_.unused;
    }
    piece->cells = std::move(cells);
    piece->since = now;
  }
  piece->landed.NotifyAll();
}

std::optional<Cells> HeldPieces::Take(Piece& piece) const {
  std::scoped_lock lock(mutex_);
  if (!piece.cells || !*piece.cells) return std::nullopt;
  Cells& held = **piece.cells;
  Cells cells = held;
  held.node.clear();
  held.took = held.detour = Duration::zero();
  return cells;
}

void HeldPieces::Done(const Key& key, const std::shared_ptr<Piece>& piece) {
  std::scoped_lock lock(mutex_);
  const auto found = pieces_.find(key);
  if (found != pieces_.end() && found->second == piece) pieces_.erase(found);
}

void HeldPieces::DropOlder(TimePoint then) {
  std::scoped_lock lock(mutex_);
  DropOlderLocked(then);
}

void HeldPieces::DropOlderLocked(TimePoint then) {
  counts_.unused += std::erase_if(pieces_, [then](const auto& entry) {
    return entry.second->cells.has_value() && entry.second->since < then;
  });
}

bool HeldPieces::empty() const {
  std::scoped_lock lock(mutex_);
  return pieces_.empty();
}

bool HeldPieces::BeginSweep() {
  std::scoped_lock lock(mutex_);
  return !std::exchange(swept_, true);
}

bool HeldPieces::EndSweep() {
  std::scoped_lock lock(mutex_);
  if (pieces_.empty()) swept_ = false;
  return !swept_;
}

HeldPieces::Counts HeldPieces::counts() const {
  std::scoped_lock lock(mutex_);
  return counts_;
}

Task<Result<Cells>> RunAhead::Read(BlockRequest request, Deadline deadline) {
  const std::shared_ptr<HeldPieces::Piece> piece =
      parts_.pieces->Find(request.block, request.range);
  if (piece) {
    Notifier::Ticket ticket = piece->landed.Enlist(parts_.context.get_executor());
    std::optional<Cells> cells = parts_.pieces->Take(*piece);
    if (!cells && co_await ticket.Wait(deadline)) cells = parts_.pieces->Take(*piece);
    if (cells) {
      const HeldPieces::Key key = HeldPieces::KeyOf(request.block, request.range.begin);
      if (request.block.offset + request.range.end == EndOf(key.offset, request.block)) {
        parts_.pieces->Done(key, piece);
      }
      co_return std::move(*cells);
    }
  }
  co_return co_await parts_.source.Read(std::move(request), deadline);
}

std::vector<BlockSpan> RunAhead::Cut(std::vector<BlockSpan> spans) const {
  if (parts_.pieces->empty()) return spans;
  std::vector<BlockSpan> cut;
  cut.reserve(spans.size() + 1);
  for (BlockSpan span : spans) {
    for (;;) {
      const std::uint64_t begin = HeldPieces::KeyOf(span.block, span.range.begin).offset;
      const std::uint64_t end = EndOf(begin, span.block);
      if (span.block.offset + span.range.end <= end) break;
      const auto middle = static_cast<std::uint32_t>(end - span.block.offset);
      const BlockSpan first{span.block, {span.range.begin, middle}};
      const BlockSpan rest{span.block, {middle, span.range.end}};
      const BlockRange next{middle, std::min<std::uint32_t>(rest.range.end, middle + 1)};
      if (!parts_.pieces->Find(span.block, first.range) && !parts_.pieces->Find(span.block, next))
        break;
      cut.push_back(first);
      span = rest;
    }
    cut.push_back(span);
  }
  return cut;
}

void RunAhead::Follow(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end,
                      std::uint64_t block_bytes, const BlockRequest& like, Deadline deadline) {
  const std::uint64_t size = like.object.size;
  if (size <= HeldPieces::kPieceBytes || block_bytes % HeldPieces::kPieceBytes != 0) return;
  const BlocksAhead ahead =
      parts_.pieces->streams().Note(nodeid, offset, end, size, HeldPieces::kPieceBytes);
  for (std::uint32_t i = 0; i < ahead.count; ++i) {
    const HeldPieces::Key key{like.block.version, (ahead.first + i) * HeldPieces::kPieceBytes};
    BlockRequest request = like;
    request.block = BlockAt(key.version, size, block_bytes, key.offset);
    request.range = {
        static_cast<std::uint32_t>(key.offset - request.block.offset),
        static_cast<std::uint32_t>(EndOf(key.offset, request.block) - request.block.offset)};
    auto piece = parts_.pieces->Begin(key, parts_.memory, request.range.size(), Clock::now());
    if (!piece) continue;
    ++fetching_;
    Spawn(parts_.context, Fetch(key, std::move(piece), std::move(request), deadline));
  }
}

Task<void> RunAhead::Fetch(HeldPieces::Key key, std::shared_ptr<HeldPieces::Piece> piece,
                           BlockRequest request, Deadline deadline) {
  Result<Cells> cells = co_await parts_.source.Read(std::move(request), deadline);
  parts_.pieces->Land(key, piece, std::move(cells), Clock::now());
  --fetching_;
  if (parts_.pieces->BeginSweep()) Spawn(parts_.context, Sweep(parts_.pieces));
}

}  // namespace forebay
