#include "cachenode/block_reader.h"

#include <utility>

namespace forebay {

// THE decision: hit | recent | join the running fill | S3, then admit.
Task<BlockReader::Found> BlockReader::Decide(const CheckedRead& read, Deadline deadline) {
  const BlockRequest& request = read.request;
  // A block that is listed and cannot be read (its disk has just failed) is fetched, not looked for
  // for ever.
  constexpr int kLooks = 3;
  for (int look = 1;; ++look) {
    // 1. The store has it, verified.
    Result<Cells> stored = co_await store_.Read(request.block, request.range);
    if (stored || stored.error().code != Code::kNotFound) co_return Found{std::move(stored), true};

    // 2. It was filled a moment ago, and the store has no room for it.
    std::optional<Cells> recent = filler_.recent().Read(request.block, request.range);
    if (recent) co_return Found{std::move(*recent), true};

    // 3. Somebody who may not ask S3 joins a running fill or goes away.
    if (request.peer_only) {
      const std::shared_ptr<Fill> running = filler_.Running(request.block);
      if (!running) co_return Found{Fail(Code::kNotFound, "the block is not cached here"), true};
      Result<Cells> joined = co_await running->Wait(request.range, deadline);
      co_return Found{std::move(joined), true};
    }

    // 4. Join the running fill, or begin one. No seat: it has landed since step 1, look again.
    const ColdBlock cold{read.link, request.object, request.block};
    const Filler::Seat seat = filler_.JoinOrStart(cold, look < kLooks);
    if (!seat.fill) continue;
    Result<Cells> filled = co_await seat.fill->Wait(request.range, deadline);
    co_return Found{std::move(filled), !seat.leads};
  }
}

void BlockReader::Count(const CheckedRead& read, const Found& found) {
  // What a peer asks in passing is the peer's read, not one of this node's.
  if (read.request.peer_only) return;
  LinkCount& count = *counters_.OfLink(read.link->id);
  const std::uint64_t bytes = found.cells ? found.cells->bytes.bytes.size() : 0;
  count.reads.fetch_add(1, std::memory_order_relaxed);
  count.read_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (found.hit) {
    count.hits.fetch_add(1, std::memory_order_relaxed);
    count.hit_bytes.fetch_add(bytes, std::memory_order_relaxed);
  } else {
    count.misses.fetch_add(1, std::memory_order_relaxed);
  }
  counters_.CountJob(read.request.job, read.link->id, found.hit);
}

Task<Result<Cells>> BlockReader::Read(CheckedRead read, Deadline deadline) {
  Found found = co_await Decide(read, deadline);
  Count(read, found);
  co_return std::move(found.cells);
}

bool BlockReader::Prefetch(const ColdBlock& cold) {
  if (store_.Contains(cold.block)) return false;
  return filler_.JoinOrStart(cold, true).leads;
}

}  // namespace forebay
