#include "coordinator/preload_lanes.h"

#include <algorithm>
#include <utility>

namespace forebay {

void PreloadLanes::SetNodes(std::shared_ptr<const RingTable> ring, const std::vector<NodeInfo>& up,
                            TimePoint now) {
  ring_ = std::move(ring);
  up_.clear();
  for (const NodeInfo& node : up) up_.emplace(node.id, node);
  for (auto& [id, lane] : lanes_) {
    if (!up_.contains(id)) Reroute(lane, now);
  }
}

void PreloadLanes::Reroute(Lane& lane, TimePoint now) {
  std::deque<WantedPiece> stranded = std::exchange(lane.queue, {});
  waiting_ -= stranded.size();
  for (WantedPiece& piece : stranded) Add(std::move(piece), now);
}

const NodeInfo* PreloadLanes::NodeFor(const BlockId& block, TimePoint now) const {
  const NodeInfo* silent = nullptr;
  for (const std::uint16_t index : ring_->OwnersOf(PartitionOf(block))) {
    const auto node = up_.find(ring_->nodes()[index].id);
    if (node == up_.end()) continue;
    const auto lane = lanes_.find(node->first);
    const bool passed_over = lane != lanes_.end() && lane->second.passed_over_until > now;
    if (!passed_over) return &node->second;
    if (silent == nullptr) silent = &node->second;
  }
  return silent;
}

void PreloadLanes::Add(WantedPiece piece, TimePoint now) {
  const NodeInfo* node = NodeFor(piece.piece.block, now);
  if (node == nullptr) {
    if (!piece.first_asked) piece.first_asked = now;
    unplaced_.push_back(std::move(piece));
    return;
  }
  lanes_[node->id].queue.push_back(std::move(piece));
  ++waiting_;
}

void PreloadLanes::AddLater(WantedPiece piece, TimePoint now) {
  later_.push_back({now + kRetryAfter, std::move(piece)});
}

void PreloadLanes::AddDue(TimePoint now) {
  while (!later_.empty() && later_.front().at <= now) {
    WantedPiece piece = std::move(later_.front().piece);
    later_.pop_front();
    Add(std::move(piece), now);
  }
}

PieceBatch PreloadLanes::Cut(Lane& lane, const NodeInfo& node, std::uint64_t most_bytes,
                             TimePoint now) {
  PieceBatch batch;
  batch.node = node;
  while (!lane.queue.empty() && batch.pieces.size() < kBatchPieces) {
    WantedPiece& next = lane.queue.front();
    const std::uint64_t bytes = batch.bytes + next.piece.block.length;
    if (!batch.pieces.empty() && bytes > std::min(most_bytes, kBatchBytes)) break;
    if (!next.first_asked) next.first_asked = now;
    batch.bytes = bytes;
    batch.pieces.push_back(std::move(next));
    lane.queue.pop_front();
  }
  waiting_ -= batch.pieces.size();
  ++lane.in_flight;
  ++in_flight_;
  bytes_in_flight_ += batch.bytes;
  return batch;
}

std::optional<PieceBatch> PreloadLanes::NextBatch(std::uint64_t most_bytes, TimePoint now) {
  if (waiting_ == 0) return std::nullopt;
  // Round robin: the lanes behind the one that was served last, then the others.
  auto lane = lanes_.upper_bound(last_);
  for (std::size_t looked = 0; looked < lanes_.size(); ++looked, ++lane) {
    if (lane == lanes_.end()) lane = lanes_.begin();
    if (lane->second.queue.empty() || lane->second.in_flight >= kBatchesAtOnce) continue;
    const auto node = up_.find(lane->first);
    if (node == up_.end()) continue;
    last_ = lane->first;
    return Cut(lane->second, node->second, most_bytes, now);
  }
  return std::nullopt;
}

PreloadLanes::Lane& PreloadLanes::EndFlight(const PieceBatch& batch) {
  Lane& lane = lanes_[batch.node.id];
  --lane.in_flight;
  --in_flight_;
  bytes_in_flight_ -= batch.bytes;
  return lane;
}

void PreloadLanes::Answered(const PieceBatch& batch) {
  Lane& lane = EndFlight(batch);
  lane.silent_since.reset();
  lane.passed_over_until = {};
}

void PreloadLanes::Unanswered(const PieceBatch& batch, TimePoint now) {
  Lane& lane = EndFlight(batch);
  if (!lane.silent_since) lane.silent_since = now;
  if (now - *lane.silent_since < kSilence) return;
  lane.passed_over_until = now + kPassOver;
  Reroute(lane, now);
}

}  // namespace forebay
