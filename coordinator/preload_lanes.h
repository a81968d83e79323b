#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/limits.h"
#include "common/model/membership.h"
#include "common/ring/ring.h"
#include "coordinator/preload_plan.h"

namespace forebay {

/// A piece that has no outcome yet.
struct WantedPiece {
  std::uint64_t number = 0;  ///< In the PreloadLedger.
  PreloadPiece piece;
  std::optional<TimePoint> first_asked;  ///< When a node was first asked for it, or none was there.
};

/// One request to one node.
struct PieceBatch {
  NodeInfo node;
  std::vector<WantedPiece> pieces;
  std::uint64_t bytes = 0;
};

/// Brings each piece of a preload to the node that readers will ask for it, the first owner that
/// lives, in batches, a few of them under way at each node so that it never waits for the next one.
/// Pure: time is given. Not thread-safe.
class PreloadLanes {
 public:
  static constexpr std::size_t kBatchPieces = 64;
  static constexpr std::uint64_t kBatchBytes = 32ULL << 20;
  /// With batches of kBatchPieces small objects: as many as a node has slots for fills.
  static constexpr std::size_t kBatchesAtOnce = 6;
  /// A node that does not answer, although it reports to us, is passed over so long.
  static constexpr std::chrono::seconds kPassOver{5};
  static constexpr std::chrono::seconds kRetryAfter{1};

  /// The table in force, and those of its nodes that are up. What waits for a node that is not goes
  /// to another one.
  void SetNodes(std::shared_ptr<const RingTable> ring, const std::vector<NodeInfo>& up,
                TimePoint now);

  void Add(WantedPiece piece, TimePoint now);
  /// Those that found no owner that is up, since the last call.
  std::vector<WantedPiece> TakeUnplaced() { return std::exchange(unplaced_, {}); }
  /// Adds it again after kRetryAfter.
  void AddLater(WantedPiece piece, TimePoint now);
  /// Adds what was put off until now.
  void AddDue(TimePoint now);

  /// The next batch, of at most `most_bytes` where it has more than one piece; nothing when every
  /// node has enough to do. Each one must be followed by Answered or Unanswered.
  std::optional<PieceBatch> NextBatch(std::uint64_t most_bytes, TimePoint now);
  void Answered(const PieceBatch& batch);
  void Unanswered(const PieceBatch& batch, TimePoint now);

  std::size_t waiting() const { return waiting_; }      ///< Pieces that wait for a batch.
  std::size_t in_flight() const { return in_flight_; }  ///< Batches.
  std::uint64_t bytes_in_flight() const { return bytes_in_flight_; }

 private:
  struct Lane {
    std::deque<WantedPiece> queue;
    std::size_t in_flight = 0;  // batches
    std::optional<TimePoint> silent_since;
    TimePoint passed_over_until;
  };
  struct Later {
    TimePoint at;
    WantedPiece piece;
  };

  /// Null when no owner is up.
  const NodeInfo* NodeFor(const BlockId& block, TimePoint now) const;
  PieceBatch Cut(Lane& lane, const NodeInfo& node, std::uint64_t most_bytes, TimePoint now);
  Lane& EndFlight(const PieceBatch& batch);
  void Reroute(Lane& lane, TimePoint now);

  std::shared_ptr<const RingTable> ring_ = std::make_shared<RingTable>();
  std::map<std::string, NodeInfo> up_;
  std::map<std::string, Lane> lanes_;  // by node id
  std::string last_;                   // whose turn it was
  std::deque<Later> later_;            // ascending
  std::vector<WantedPiece> unplaced_;
  std::size_t waiting_ = 0;
  std::size_t in_flight_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
};

}  // namespace forebay
