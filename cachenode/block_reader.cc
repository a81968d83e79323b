#include "cachenode/block_reader.h"

#include <atomic>
#include <optional>
#include <utility>

namespace forebay {
namespace {

Error NoRoom() {
  return Error{Code::kOverloaded, "the answers of this node take all the memory that they may"};
}

}  // namespace

/// Counts one read as it ends, however it ends: also when its reader has gone away. A miss is a
/// read that began a fill which did not come from another node's cache; everything else cost no GET
/// and is a hit.
class BlockReader::Tally {
 public:
  Tally(NodeCounters& counters, BlockHistory& history, const CheckedRead& read)
      : counters_(counters), history_(history), read_(read) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  ~Tally() {
    // Whoever asked: a reader, or another node.
    if (read_.request.cross_zone && sent_ > 0)
      counters_.OfLink(read_.link->id)
          ->cross_zone_bytes.fetch_add(sent_, std::memory_order_relaxed);
    // What a peer asks in passing is the peer's read, not one of this node's.
    if (read_.request.peer_only) return;
    // It was, as the hit that it was to be; what came of it instead is another read if it costs a
    // GET.
    if (read_.request.counted && !began_) return;
    LinkCount& count = *counters_.OfLink(read_.link->id);
    count.reads.fetch_add(1, std::memory_order_relaxed);
    BytesOf(count).fetch_add(bytes_, std::memory_order_relaxed);
    const bool hit = !began_ || began_->is_from_peer();
    if (hit) {
      count.hits.fetch_add(1, std::memory_order_relaxed);
      count.hit_bytes.fetch_add(bytes_, std::memory_order_relaxed);
    } else {
      count.misses.fetch_add(1, std::memory_order_relaxed);
    }
    counters_.CountJob(read_.request.job, read_.link->id, hit);
    if (bytes_ > 0) history_.NoteRead(read_.request.block, read_.request.job);
  }

  void Began(std::shared_ptr<const Fill> fill) { began_ = std::move(fill); }
  void Answer(const Cells& cells) {
    bytes_ = read_.request.range.size();
    sent_ = cells.bytes.bytes.size();
    tier_ = cells.tier;
  }
  void AnswerByPlace() { bytes_ = read_.request.range.size(); }

 private:
  std::atomic<std::uint64_t>& BytesOf(LinkCount& count) const {
    if (tier_ == Tier::kS3) return count.fill_bytes;
    return tier_ == Tier::kPeer ? count.peer_bytes : count.kept_bytes;
  }

  NodeCounters& counters_;
  BlockHistory& history_;
  const CheckedRead& read_;
  std::shared_ptr<const Fill> began_;
  Tier tier_ = Tier::kLocal;
  std::uint64_t bytes_ = 0;
  std::uint64_t sent_ = 0;  // whole cells
};

// THE decision: hit | recent | join the running fill | other nodes, S3, then admit.
Task<Result<Cells>> BlockReader::Decide(const CheckedRead& read, Tally& tally,
                                        ReplyRoom::Place* place, Deadline deadline) {
  const BlockRequest& request = read.request;
  // A block that is listed and cannot be read (its disk has just failed) is fetched, not looked for
  // for ever; at once if the disk let us wait in vain.
  constexpr int kLooks = 3;
  for (int look = 1;; ++look) {
    // 1. The store has it, verified.
    Result<Cells> stored = co_await store_.Read(request.block, request.range);
    const bool hangs = !stored && stored.error().code == Code::kTimeout;
    if (stored || (stored.error().code != Code::kNotFound && !hangs)) co_return stored;

    // 2. It was filled a moment ago, and the store has no room for it.
    std::optional<Cells> recent = filler_.recent().Read(request.block, request.range);
    if (recent) co_return std::move(*recent);

    // What is filled has memory of its own, and hits have theirs while S3 does not answer.
    place->Leave();

    // 3. Another node may not make us ask S3: it joins a GET of ours or goes away.
    if (request.peer_only) {
      const std::shared_ptr<Fill> running = filler_.Running(request.link, request.block);
      if (!running) co_return Fail(Code::kNotFound, "the block is not cached here");
      Result<Cells> joined = co_await running->Wait(request.range, deadline, true);
      co_return joined;
    }

    // 4. Join the running fill, or begin one. No seat: it has landed since step 1, look again.
    ColdBlock cold{read.link, request.object, request.block, request.passed_over};
    cold.spread = request.spread;
    cold.waited = request.waited;
    cold.wanted = request.range;
    const Filler::Seat seat = filler_.JoinOrStart(cold, look < kLooks && !hangs);
    if (!seat.fill) {
      *place = TakePlace(read);
      if (!place->taken()) co_return Fail(NoRoom());
      continue;
    }
    if (seat.leads) tally.Began(seat.fill);
    Result<Cells> filled = co_await seat.fill->Wait(request.range, deadline);
    co_return filled;
  }
}

ReplyRoom::Place BlockReader::TakePlace(const CheckedRead& read) {
  return room_.Take(read.payer,
                    EnclosingCells(read.request.range, read.request.block.length).size());
}

Task<Result<Cells>> BlockReader::Read(CheckedRead read, Deadline deadline) {
  ReplyRoom::Place place = TakePlace(read);
  if (!place.taken()) co_return Fail(NoRoom());
  Tally tally(counters_, history_, read);
  if (!read.request.peer_only && !read.request.counted)
    store_.NoteRead(read.link->id, read.request.block, read.request.job);
  Result<Cells> cells = co_await Decide(read, tally, &place, deadline);
  if (!cells) co_return cells;
  if (!place.taken()) place = TakePlace(read);
  if (!place.taken()) co_return Fail(NoRoom());
  cells->bytes = ReplyRoom::Keep(std::move(cells->bytes), std::move(place));
  tally.Answer(*cells);
  co_return cells;
}

std::optional<CellPlace> BlockReader::Place(const CheckedRead& read) {
  std::optional<CellPlace> place = store_.Place(read.request.block, read.request.range);
  // Of a block that another link has brought, its segment is not this reader's to see.
  if (!place || place->link != read.link->id) return std::nullopt;
  Tally tally(counters_, history_, read);
  store_.NoteRead(read.link->id, read.request.block, read.request.job);
  tally.AnswerByPlace();
  return place;
}

bool BlockReader::NotePlaced(const CheckedRead& read, std::uint64_t segment) {
  const bool stays = store_.Use(read.request.block, segment);
  Tally tally(counters_, history_, read);
  store_.NoteRead(read.link->id, read.request.block, read.request.job);
  tally.AnswerByPlace();
  return stays;
}

Prefetched BlockReader::Prefetch(const ColdBlock& cold, std::string_view job, Urgency urgency) {
  if (store_.Contains(cold.block)) return Prefetched::kHere;
  // What S3 would not give this node is left to who asks, if that is another node; nor is it
  // fetched ahead, unless another node can.
  const bool would_fail = filler_.IsUnserved(cold.link->id) &&
                          (urgency == Urgency::kReader || !filler_.HasStandIns(cold));
  if (would_fail || (urgency != Urgency::kReader && !filler_.HasFreeSlot(cold.link->id))) {
    const bool there = filler_.recent().Contains(cold.block) ||
                       filler_.Running(cold.link->id, cold.block) != nullptr;
    if (!there && urgency == Urgency::kReader && !cold.stand_in)
      filler_.NoteLeftToOthers(cold.link->id);
    return there ? Prefetched::kHere : Prefetched::kRefused;
  }
  if (!cold.stand_in) store_.NoteRead(cold.link->id, cold.block, job);
  ColdBlock asked = cold;
  asked.urgency = urgency;
  return filler_.JoinOrStart(asked, true).leads ? Prefetched::kBegun : Prefetched::kHere;
}

}  // namespace forebay
