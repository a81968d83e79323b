#include "coordinator/preload_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace forebay {
namespace {

PreloadPiece Piece(std::uint32_t row, std::uint32_t length, bool ends = true) {
  PreloadPiece piece;
  piece.row = row;
  piece.block.length = length;
  piece.ends_object = ends;
  return piece;
}

TEST(PreloadLedger, TheCheckpointWaitsForTheFirstOpenObject) {
  PreloadLedger ledger({});
  const std::uint64_t a = ledger.Add(Piece(1, 10));
  const std::uint64_t b1 = ledger.Add(Piece(2, 10, false));
  const std::uint64_t b2 = ledger.Add(Piece(2, 5));
  const std::uint64_t c = ledger.Add(Piece(3, 1));
  ledger.Settle(b2, FillOutcome::kFilled);
  ledger.Settle(c, FillOutcome::kKept);
  EXPECT_EQ(ledger.checkpoint().cursor, 0u);
  EXPECT_EQ(ledger.counts().bytes, 6u) << "bytes are known at once";
  EXPECT_EQ(ledger.counts().objects, 0u);
  ledger.Settle(a, FillOutcome::kKept);
  EXPECT_EQ(ledger.checkpoint().cursor, 1u);
  EXPECT_EQ(ledger.checkpoint().counts.objects, 1u);
  EXPECT_EQ(ledger.checkpoint().counts.bytes, 10u);
  EXPECT_EQ(ledger.open(), 3u);
  ledger.Settle(b1, FillOutcome::kFilled);
  EXPECT_EQ(ledger.checkpoint().cursor, 4u);
  EXPECT_EQ(ledger.checkpoint().counts, ledger.counts());
  EXPECT_EQ(ledger.counts().objects, 3u);
  EXPECT_EQ(ledger.counts().fetched_blocks, 2u);
  EXPECT_EQ(ledger.counts().fetched_bytes, 15u);
  EXPECT_EQ(ledger.open(), 0u);
}

TEST(PreloadLedger, AnObjectIsWhatItsWorstBlockIs) {
  PreloadLedger ledger({});
  for (const std::uint32_t row : {1u, 2u, 3u}) {
    ledger.Add(Piece(row, 4, false));
    ledger.Add(Piece(row, 4, false));
    ledger.Add(Piece(row, 4));
  }
  ledger.Settle(0, FillOutcome::kFilled);
  ledger.Settle(1, FillOutcome::kNoRoom);
  ledger.Settle(2, FillOutcome::kKept);
  ledger.Settle(3, FillOutcome::kNoRoom);
  ledger.Settle(4, FillOutcome::kFailed, "the first reason");
  ledger.Settle(5, FillOutcome::kFailed, "another");
  for (const std::uint64_t kept : {6u, 7u, 8u}) ledger.Settle(kept, FillOutcome::kKept);
  const PreloadCounts want{.objects = 1,
                           .bytes = 20,
                           .failed = 1,
                           .failed_bytes = 8,
                           .not_kept = 1,
                           .not_kept_bytes = 8,
                           .fetched_blocks = 1,
                           .fetched_bytes = 4};
  EXPECT_EQ(ledger.counts(), want);
  const auto failed = ledger.TakeFailed();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].row, 2u);
  EXPECT_EQ(failed[0].reason, "the first reason");
  EXPECT_TRUE(ledger.TakeFailed().empty());
}

TEST(PreloadLedger, WhereverItGoesOnTheSumsAreTheSame) {
  std::mt19937 random(7);
  std::vector<PreloadPiece> pieces;
  std::vector<FillOutcome> outcomes;
  for (std::uint32_t i = 0; i < 500; ++i) {
    pieces.push_back(Piece(i / 3, 1 + random() % 9, i % 3 == 2 || i == 499));
    outcomes.push_back(static_cast<FillOutcome>(1 + random() % 4));
  }
  PreloadLedger whole({});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    whole.Settle(whole.Add(pieces[i]), outcomes[i]);
  }
  // Interrupted again and again, with answers in any order.
  PreloadLedger::Checkpoint checkpoint;
  std::size_t failed = 0;
  while (checkpoint.cursor < pieces.size()) {
    PreloadLedger part(checkpoint);
    std::vector<std::uint64_t> open;
    for (std::size_t i = checkpoint.cursor; i < pieces.size(); ++i)
      open.push_back(part.Add(pieces[i]));
    std::ranges::shuffle(open.begin(),
                         open.begin() + std::min<std::ptrdiff_t>(40, std::ssize(open)), random);
    for (std::size_t i = 0; i < std::min<std::size_t>(40, open.size()); ++i) {
      part.Settle(open[i], outcomes[open[i]], "why");
    }
    failed += part.TakeFailed().size();
    checkpoint = part.checkpoint();
  }
  EXPECT_EQ(checkpoint.counts, whole.counts());
  EXPECT_EQ(failed, whole.counts().failed);
}

}  // namespace
}  // namespace forebay
