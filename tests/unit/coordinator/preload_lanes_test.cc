#include "coordinator/preload_lanes.h"

#include <gtest/gtest.h>

#include <set>

namespace forebay {
namespace {

using std::chrono::seconds;

class PreloadLanesTest : public testing::Test {
 protected:
  PreloadLanesTest() {
    for (const char* id : {"n1", "n2", "n3"}) {
      NodeInfo node;
      node.id = id;
      node.address = std::string(id) + ":1";
      node.capacity_bytes = 1 << 30;
      nodes.push_back(node);
    }
    ring = std::make_shared<const RingTable>(RingTable::Next(RingTable(), nodes, 0));
    lanes.SetNodes(ring, nodes, now);
  }

  void AddMany(std::uint64_t count, std::uint32_t length) {
    for (std::uint64_t i = 0; i < count; ++i) {
      WantedPiece piece;
      piece.number = next_++;
      piece.piece.block.version.low = piece.number * 7919;
      piece.piece.block.length = length;
      lanes.Add(piece, now);
    }
  }
  std::string FirstOwner(const PieceBatch& batch) const {
    const auto owners = ring->OwnersOf(PartitionOf(batch.pieces.front().piece.block));
    return ring->nodes()[owners.front()].id;
  }
  std::vector<PieceBatch> TakeAll(std::uint64_t most = UINT64_MAX) {
    std::vector<PieceBatch> batches;
    while (auto batch = lanes.NextBatch(most, now)) batches.push_back(std::move(*batch));
    return batches;
  }

  TimePoint now = TimePoint() + seconds(1000);
  std::vector<NodeInfo> nodes;
  std::shared_ptr<const RingTable> ring;
  PreloadLanes lanes;

 private:
  std::uint64_t next_ = 0;
};

TEST_F(PreloadLanesTest, EachPieceGoesToItsFirstOwnerInBoundedBatches) {
  AddMany(5000, 1000);
  std::map<std::string, std::size_t> batches;
  for (const PieceBatch& batch : TakeAll()) {
    ++batches[batch.node.id];
    EXPECT_LE(batch.pieces.size(), PreloadLanes::kBatchPieces);
    for (const WantedPiece& piece : batch.pieces) {
      const auto owners = ring->OwnersOf(PartitionOf(piece.piece.block));
      EXPECT_EQ(ring->nodes()[owners.front()].id, batch.node.id);
    }
  }
  EXPECT_EQ(batches.size(), 3u) << "no node waits while another is served";
  for (const auto& [node, count] : batches) EXPECT_EQ(count, PreloadLanes::kBatchesAtOnce);
  EXPECT_EQ(lanes.in_flight(), 3 * PreloadLanes::kBatchesAtOnce);
}

TEST_F(PreloadLanesTest, AnAnswerMakesRoomForTheNextBatchOfThatNode) {
  AddMany(5000, 1000);
  const std::vector<PieceBatch> batches = TakeAll();
  lanes.Answered(batches.front());
  const auto next = lanes.NextBatch(UINT64_MAX, now);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->node.id, batches.front().node.id);
  EXPECT_FALSE(lanes.NextBatch(UINT64_MAX, now).has_value());
}

TEST_F(PreloadLanesTest, ABatchIsBoundedInBytesButHasAPiece) {
  AddMany(300, 4 << 20);
  for (const PieceBatch& batch : TakeAll()) {
    EXPECT_LE(batch.bytes, PreloadLanes::kBatchBytes);
    EXPECT_GT(batch.pieces.size(), 1u);
    lanes.Answered(batch);
  }
  for (const PieceBatch& batch : TakeAll(1)) EXPECT_EQ(batch.pieces.size(), 1u);
}

TEST_F(PreloadLanesTest, WhatWaitsForANodeThatIsGoneGoesToTheNextOwner) {
  AddMany(900, 1000);
  lanes.SetNodes(ring, {nodes[0], nodes[1]}, now);
  std::size_t pieces = 0;
  for (const PieceBatch& batch : TakeAll()) {
    EXPECT_NE(batch.node.id, "n3");
    pieces += batch.pieces.size();
    lanes.Answered(batch);
  }
  for (const PieceBatch& batch : TakeAll()) pieces += batch.pieces.size();
  EXPECT_EQ(pieces, 900u) << "none is lost";
}

TEST_F(PreloadLanesTest, ANodeThatIsSilentForLongIsPassedOverForAWhile) {
  AddMany(600, 1000);
  std::vector<PieceBatch> batches = TakeAll();
  std::size_t retried = 0;
  const auto fail = [&](PieceBatch& batch) {
    lanes.Unanswered(batch, now);
    for (WantedPiece& piece : batch.pieces) lanes.AddLater(std::move(piece), now);
    ++retried;
  };
  for (PieceBatch& batch : batches) {
    if (batch.node.id == "n1") fail(batch);
  }
  ASSERT_GT(retried, 0u);
  lanes.AddDue(now);
  EXPECT_FALSE(lanes.NextBatch(UINT64_MAX, now).has_value()) << "not before it is due";
  now += kSilence;
  lanes.AddDue(now);
  batches = TakeAll();
  ASSERT_FALSE(batches.empty());
  EXPECT_EQ(batches.front().node.id, "n1") << "once more";
  for (PieceBatch& batch : batches) fail(batch);
  now += PreloadLanes::kRetryAfter;
  lanes.AddDue(now);
  batches = TakeAll();
  ASSERT_FALSE(batches.empty());
  for (PieceBatch& batch : batches) {
    EXPECT_NE(batch.node.id, "n1");
    EXPECT_EQ(FirstOwner(batch), "n1");
    fail(batch);
  }
  now += PreloadLanes::kPassOver;
  lanes.AddDue(now);
  batches = TakeAll();
  ASSERT_FALSE(batches.empty());
  EXPECT_EQ(batches.front().node.id, "n1") << "it may be back";
}

TEST_F(PreloadLanesTest, WithoutAnyNodePiecesComeBackAtOnce) {
  lanes.SetNodes(ring, {}, now);
  AddMany(10, 1000);
  EXPECT_FALSE(lanes.NextBatch(UINT64_MAX, now).has_value());
  const std::vector<WantedPiece> unplaced = lanes.TakeUnplaced();
  ASSERT_EQ(unplaced.size(), 10u);
  EXPECT_EQ(unplaced[0].first_asked, now) << "patience begins";
  EXPECT_TRUE(lanes.TakeUnplaced().empty());
}

}  // namespace
}  // namespace forebay
