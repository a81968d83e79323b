#include "fuse-client/run_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "tests/fakes/sample_link.h"

namespace forebay {
namespace {

using fakes::SampleLink;

constexpr std::uint64_t kBlock = 4 << 20;
constexpr std::uint64_t kPiece = HeldPieces::kPieceBytes;
constexpr std::uint64_t kSize = 5 * kBlock + 12'345;
constexpr std::uint64_t kNode = 7;

/// Right bytes; answers at once, or when it is let.
class Source final : public BlockSource {
 public:
  Task<Result<Cells>> Read(BlockRequest request, Deadline deadline) override {
    asked.push_back({request.block, request.range});
    while (held) {
      Notifier::Ticket ticket = let_.Enlist(co_await asio::this_coro::executor);
      if (!co_await ticket.Wait(deadline)) co_return Fail(Code::kTimeout, "held too long");
    }
    if (failures > 0) {
      --failures;
      co_return Fail(Code::kUnavailable, "as the test says");
    }
    const BlockRange range = EnclosingCells(request.range, request.block.length);
    Cells cells;
    cells.begin = range.begin;
    cells.bytes =
        Slice::Of(SampleLink::Bytes("big", request.block.offset + range.begin, range.size()));
    cells.tier = Tier::kPeer;
    cells.node = "n1";
    co_return cells;
  }
  void Let() {
    held = false;
    let_.NotifyAll();
  }

  std::vector<BlockSpan> asked;
  int failures = 0;
  bool held = false;

 private:
  Notifier let_;
};

class RunAheadTest : public ::testing::Test {
 protected:
  BlockRequest Like() const {
    BlockRequest request;
    request.block = BlockAt(version_, kSize, kBlock, 0);
    request.object = {"big", "etag", kSize};
    return request;
  }

  /// As FileReader reads; calls `done` with the bytes, or with what went wrong.
  Task<void> ReadFile(std::uint64_t offset, std::uint64_t size,
                      std::function<void(Result<std::string>)> done) {
    std::string bytes;
    const Deadline deadline = Deadline::After(std::chrono::seconds(60));
    const auto spans = ahead_.Cut(CutSpans(version_, kSize, kBlock, offset, size));
    ahead_.Follow(kNode, offset, std::min(offset + size, kSize), kBlock, Like(), deadline);
    for (const BlockSpan& span : spans) {
      BlockRequest request = Like();
      request.block = span.block;
      request.range = span.range;
      const Result<Cells> cells = co_await ahead_.Read(std::move(request), deadline);
      if (!cells) {
        done(Fail(cells.error()));
        co_return;
      }
      const ByteView part = cells->Part(span.range);
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    done(std::move(bytes));
  }

  void Run() {
    context_.restart();
    context_.poll();
  }

  /// True when the READ has been answered with the right bytes.
  bool Reads(std::uint64_t offset, std::uint64_t size) {
    std::optional<Result<std::string>> got;
    Spawn(context_,
          ReadFile(offset, size, [&](Result<std::string> bytes) { got = std::move(bytes); }));
    Run();
    if (!got || !*got) return false;
    const auto right = SampleLink::Bytes("big", offset, std::min(size, kSize - offset));
    return **got == std::string(reinterpret_cast<const char*>(right->data()), right->size());
  }

  std::ptrdiff_t AskedFor(std::uint64_t offset) const {
    return std::count_if(source_.asked.begin(), source_.asked.end(), [&](const BlockSpan& span) {
      const std::uint64_t begin = span.block.offset + span.range.begin;
      return begin <= offset && offset < begin + span.range.size();
    });
  }

  const ObjectVersion version_{1, 2};
  asio::io_context context_{1};
  Source source_;
  MemoryBudget memory_{256UL << 20};
  std::shared_ptr<HeldPieces> pieces_ = std::make_shared<HeldPieces>();
  RunAhead ahead_{{context_, source_, pieces_, memory_}};
};

TEST_F(RunAheadTest, AStreamIsAskedForOnceAndAheadOfItsReader) {
  for (std::uint64_t offset = 0; offset < kSize; offset += kPiece) {
    ASSERT_TRUE(Reads(offset, kPiece)) << offset;
  }
  for (std::uint64_t offset = 0; offset < kSize; offset += kPiece) EXPECT_EQ(AskedFor(offset), 1);
  // All behind the first four MiB came before its reader did.
  EXPECT_EQ(pieces_->counts().begun, (kSize + kPiece - 1) / kPiece - 4);
  EXPECT_EQ(pieces_->counts().unused, 0u);
  EXPECT_TRUE(pieces_->empty());
  EXPECT_EQ(memory_.in_use(), 0u);
}

// The kernel cuts a program's read where the pages of its buffer end, not where ours do.
TEST_F(RunAheadTest, ReadsThatDoNotLieOnPiecesHaveTheirBytesFromTwo) {
  constexpr std::uint64_t kOdd = kPiece - 16;
  for (std::uint64_t offset = 0; offset < kSize; offset += kOdd) {
    ASSERT_TRUE(Reads(offset, kOdd)) << offset;
  }
  for (std::uint64_t offset = 6 * kPiece; offset < kSize; offset += kPiece) {
    EXPECT_EQ(AskedFor(offset), 1) << offset;
    EXPECT_EQ(AskedFor(offset - 1), 1) << offset;
  }
  EXPECT_TRUE(pieces_->empty());
}

TEST_F(RunAheadTest, AReaderWaitsForWhatIsOnItsWay) {
  for (std::uint64_t offset = 0; offset < 4 * kPiece; offset += kPiece) {
    if (offset == 3 * kPiece) source_.held = true;
    EXPECT_EQ(Reads(offset, kPiece), offset < 3 * kPiece);
  }
  ASSERT_EQ(AskedFor(4 * kPiece), 1);
  std::optional<Result<std::string>> got;
  Spawn(context_,
        ReadFile(4 * kPiece, kPiece, [&](Result<std::string> bytes) { got = std::move(bytes); }));
  Run();
  EXPECT_FALSE(got);
  source_.Let();
  Run();
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->size(), kPiece);
  EXPECT_EQ(AskedFor(4 * kPiece), 1);
}

TEST_F(RunAheadTest, WhatWasGivenUpIsReadWhenItsReaderComes) {
  for (std::uint64_t offset = 0; offset < 4 * kPiece; offset += kPiece) {
    ASSERT_TRUE(Reads(offset, kPiece));
  }
  pieces_->DropOlder(TimePoint::max());
  EXPECT_EQ(pieces_->counts().unused, 1u);
  ASSERT_TRUE(Reads(4 * kPiece, kPiece));
  EXPECT_EQ(AskedFor(4 * kPiece), 2);
}

TEST_F(RunAheadTest, AFailedPieceFailsNoReader) {
  for (std::uint64_t offset = 0; offset < 3 * kPiece; offset += kPiece) Reads(offset, kPiece);
  // Of the next READ and of the piece behind it, the READ's own goes out first.
  source_.held = true;
  EXPECT_FALSE(Reads(3 * kPiece, kPiece));
  source_.failures = 2;
  source_.Let();
  Run();
  EXPECT_TRUE(pieces_->empty());
  EXPECT_EQ(pieces_->counts().unused, pieces_->counts().begun);
  EXPECT_TRUE(Reads(4 * kPiece, kPiece));
}

TEST_F(RunAheadTest, RecordsHereAndThereAreNotAStream) {
  for (const std::uint64_t offset : {9 * kPiece, 1 * kPiece, 15 * kPiece, 5 * kPiece}) {
    for (std::uint64_t at = 0; at < 3 * kPiece; at += kPiece)
      ASSERT_TRUE(Reads(offset + at, kPiece));
  }
  EXPECT_EQ(pieces_->counts().begun, 0u);
  EXPECT_EQ(source_.asked.size(), 12u);
}

TEST_F(RunAheadTest, ReadersComeBeforeWhatIsHeld) {
  Result<MemoryBudget::Reservation> others = memory_.TryReserve(memory_.limit() / 2);
  for (std::uint64_t offset = 0; offset < kSize; offset += kPiece)
    ASSERT_TRUE(Reads(offset, kPiece));
  EXPECT_EQ(pieces_->counts().begun, 0u);
  others->Release();
  for (std::uint64_t offset = 0; offset < 6 * kPiece; offset += kPiece) {
    ASSERT_TRUE(Reads(offset, kPiece));
  }
  EXPECT_GT(memory_.in_use(), 0u);
  ahead_.GiveUp();
  EXPECT_EQ(memory_.in_use(), 0u);
  ASSERT_TRUE(Reads(6 * kPiece, kPiece));
}

TEST_F(RunAheadTest, NoMoreIsHeldThanThereIsRoomFor) {
  const HeldPieces::Key key{version_, 0};
  for (std::uint64_t i = 0; i < HeldPieces::kPiecesMax; ++i) {
    EXPECT_TRUE(pieces_->Begin({version_, i * kPiece}, memory_, 1, Clock::now()));
  }
  EXPECT_FALSE(pieces_->Begin({version_, 1'000 * kPiece}, memory_, 1, Clock::now()));
  const auto piece = pieces_->Find(BlockAt(version_, kSize, kBlock, 0), {0, kPiece});
  ASSERT_TRUE(piece);
  const TimePoint landed = Clock::now();
  pieces_->Land(key, piece, Cells{}, landed);
  // One that landed and that nobody came for makes room.
  EXPECT_TRUE(
      pieces_->Begin({version_, 1'000 * kPiece}, memory_, 1, landed + 2 * HeldPieces::kHeldFor));
  EXPECT_EQ(pieces_->counts().unused, 1u);
}

}  // namespace
}  // namespace forebay
