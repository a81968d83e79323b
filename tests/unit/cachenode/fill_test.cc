#include "cachenode/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <string>

#include "common/base/executors.h"

namespace forebay {
namespace {

constexpr std::uint32_t kCell = kCellBytes;

/// A fill of three and a half cells, and a thread for those who wait.
class FillTest : public ::testing::Test {
 protected:
  FillTest() { pool_.Start(); }

  std::future<Result<Cells>> Wait(BlockRange range, Duration patience = std::chrono::seconds(20)) {
    return asio::co_spawn(pool_.Next(), fill_->Wait(range, Deadline::After(patience)),
                          asio::use_future);
  }

  void Deliver(std::size_t size, std::byte value) {
    Buffer bytes(size);
    std::fill_n(bytes.data(), size, value);
    fill_->OnData(bytes.view());
  }

  static BlockId Block() {
    BlockId block;
    block.version.low = 7;
    block.length = 3 * kCell + kCell / 2;
    return block;
  }

  MemoryBudget budget_{1 << 20};
  std::shared_ptr<Fill> fill_ = std::make_shared<Fill>(Block());
  IoPool pool_{"fill", 1};
};

TEST_F(FillTest, BytesThatAreStillToBeComparedAreServedAtTheEnd) {
  fill_->OnAttempt();
  fill_->HoldBack();
  Deliver(Block().length, std::byte{1});
  EXPECT_FALSE(fill_->TryRead({0, 1}).has_value()) << "all of it is here";
  std::future<Result<Cells>> waits = Wait({0, 1});
  // They were not what was uploaded: the next attempt brings others, without a checksum.
  fill_->OnAttempt();
  Deliver(Block().length, std::byte{2});
  const Result<Cells> cells = waits.get();
  ASSERT_TRUE(cells.has_value());
  EXPECT_EQ(cells->bytes.bytes.front(), std::byte{2});
  fill_->OnAttempt();
  fill_->HoldBack();
  Deliver(Block().length, std::byte{3});
  ASSERT_TRUE(fill_->Finish(Status()).has_value());
  EXPECT_EQ((*fill_->TryRead({0, 1}))->bytes.bytes.front(), std::byte{3});
}

TEST_F(FillTest, AReaderGetsItsCellsAsSoonAsTheyAreThere) {
  std::future<Result<Cells>> second_cell = Wait({kCell + 5, kCell + 9});
  fill_->MarkGet();
  fill_->OnAttempt();
  Deliver(2 * kCell + 1, std::byte{1});
  const Result<Cells> cells = second_cell.get();
  ASSERT_TRUE(cells.has_value()) << cells.error().message;
  EXPECT_EQ(cells->begin, kCell);
  EXPECT_EQ(cells->bytes.bytes.size(), kCell);
  EXPECT_EQ(cells->tier, Tier::kS3);
  EXPECT_TRUE(cells->Verify());
  EXPECT_FALSE(fill_->TryRead({2 * kCell, 2 * kCell + 1}).has_value())
      << "the third cell is not whole yet";
}

TEST_F(FillTest, WhatComesBeforeTheGetIsAnotherNodes) {
  EXPECT_FALSE(fill_->is_from_peer()) << "nothing has come yet";
  fill_->OnAttempt();
  Deliver(kCell, std::byte{1});
  EXPECT_TRUE(fill_->is_from_peer());
  const std::optional<Result<Cells>> cells = fill_->TryRead({0, 1});
  ASSERT_TRUE(cells.has_value() && cells->has_value());
  EXPECT_EQ((*cells)->tier, Tier::kPeer);
  fill_->StartOver();
  fill_->MarkGet();
  EXPECT_FALSE(fill_->TryRead({0, 1}).has_value()) << "what the other node brought is forgotten";
  fill_->OnAttempt();
  EXPECT_FALSE(fill_->is_from_peer());
}

TEST_F(FillTest, TheShortLastCellComesWithTheLastByte) {
  fill_->OnAttempt();
  Deliver(fill_->block().length - 1, std::byte{1});
  const BlockRange last{3 * kCell + 1, 3 * kCell + 2};
  EXPECT_FALSE(fill_->TryRead(last).has_value());
  Deliver(1, std::byte{1});
  const std::optional<Result<Cells>> cells = fill_->TryRead(last);
  ASSERT_TRUE(cells.has_value() && cells->has_value());
  EXPECT_EQ((*cells)->bytes.bytes.size(), kCell / 2);
  EXPECT_TRUE((*cells)->Verify());
  EXPECT_TRUE(fill_->Finish(Status()).has_value());
}

TEST_F(FillTest, ASecondAttemptStartsOverInABufferOfItsOwn) {
  fill_->OnAttempt();
  Deliver(kCell + 10, std::byte{1});
  const std::optional<Result<Cells>> early = fill_->TryRead({0, 1});
  ASSERT_TRUE(early.has_value() && early->has_value());
  fill_->OnAttempt();
  EXPECT_FALSE(fill_->TryRead({0, 1}).has_value()) << "what came before counts as nothing";
  Deliver(fill_->block().length, std::byte{2});
  ASSERT_TRUE(fill_->Finish(Status()).has_value());
  EXPECT_TRUE((*early)->Verify()) << "bytes that were handed out were written again";
  const Slice data = fill_->Data();
  EXPECT_EQ(data.bytes.front(), std::byte{2});
  EXPECT_EQ(data.bytes.size(), fill_->block().length);
  EXPECT_EQ(fill_->Checksums().size(), 4u);
}

TEST_F(FillTest, APartBehindTheFrontIsReadBeforeTheFrontHasCome) {
  const std::uint32_t length = Block().length;
  const BlockRange far{2 * kCell, length};
  std::future<Result<Cells>> both = Wait({kCell, 3 * kCell});
  fill_->BeginPart(far);
  fill_->OnAttempt();
  Deliver(kCell + 1, std::byte{1});
  const std::optional<Result<Cells>> early = fill_->TryRead({2 * kCell, 2 * kCell + 5});
  ASSERT_TRUE(early.has_value() && early->has_value());
  EXPECT_EQ((*early)->begin, 2 * kCell);
  EXPECT_TRUE((*early)->Verify());
  EXPECT_FALSE(fill_->TryRead({3 * kCell, length}).has_value()) << "of it one byte has come";
  EXPECT_FALSE(fill_->TryRead({0, 1}).has_value());
  Deliver(far.size() - kCell - 1, std::byte{1});
  EXPECT_TRUE(fill_->TryRead({3 * kCell, length}).has_value());
  EXPECT_EQ(fill_->Verdict(Status()).error().code, Code::kCorrupt) << "a part is no block";

  fill_->BeginPart({0, far.begin});
  fill_->OnAttempt();
  Deliver(kCell, std::byte{2});
  EXPECT_TRUE(fill_->TryRead({0, kCell}).has_value());
  EXPECT_FALSE(fill_->TryRead({0, length}).has_value()) << "the second cell is missing";
  Deliver(kCell, std::byte{2});
  EXPECT_EQ(both.get()->bytes.bytes.size(), 2 * kCell) << "one of each part";
  ASSERT_TRUE(fill_->Finish(Status()).has_value());
  const Slice data = fill_->Data();
  EXPECT_EQ((*early)->bytes.bytes.data(), data.bytes.data() + far.begin) << "one buffer for all";
  EXPECT_EQ(data.bytes[far.begin - 1], std::byte{2});
  EXPECT_EQ(data.bytes[far.begin], std::byte{1});
  EXPECT_TRUE((*fill_->TryRead({0, length}))->Verify());
}

TEST_F(FillTest, APartThatComesOnceMoreLeavesTheOtherPartAndWhatWasHandedOutAlone) {
  const std::uint32_t length = Block().length;
  Result<MemoryBudget::Reservation> memory = budget_.TryReserve(length);
  ASSERT_TRUE(memory.has_value());
  fill_->Hold(std::move(*memory));
  for (const BlockRange part : {BlockRange{2 * kCell, length}, BlockRange{0, 2 * kCell}}) {
    fill_->BeginPart(part);
    fill_->OnAttempt();
    Deliver(kCell + 10, std::byte{1});
    const BlockRange first{part.begin, part.begin + 1};
    const std::optional<Result<Cells>> early = fill_->TryRead(first);
    ASSERT_TRUE(early.has_value() && early->has_value());
    fill_->OnAttempt();
    EXPECT_FALSE(fill_->TryRead(first).has_value()) << "what came before counts as nothing";
    EXPECT_EQ(fill_->TryRead({2 * kCell, length}).has_value(), part.begin == 0);
    Deliver(part.size(), std::byte{2});
    EXPECT_EQ((*early)->bytes.bytes.front(), std::byte{1});
    EXPECT_TRUE((*early)->Verify()) << "bytes that were handed out were written again";
  }
  EXPECT_EQ(budget_.in_use(), length);
  ASSERT_TRUE(fill_->Finish(Status()).has_value());
  const Slice data = fill_->Data();
  EXPECT_TRUE(std::ranges::all_of(data.bytes, [](std::byte b) { return b == std::byte{2}; }));
  EXPECT_TRUE((*fill_->TryRead({0, length}))->Verify());
}

TEST_F(FillTest, OfThoseWhoWaitTheForemostIsServedFirst) {
  EXPECT_EQ(fill_->first_cells(), (BlockRange{0, Block().length}));
  fill_->Want({2 * kCell, 3 * kCell});
  fill_->Want({3 * kCell, Block().length});
  EXPECT_EQ(fill_->first_cells(), (BlockRange{2 * kCell, 3 * kCell}));
  fill_->Want({kCell, 2 * kCell});
  EXPECT_EQ(fill_->first_cells(), (BlockRange{kCell, 2 * kCell}));
}

// One of them may be asked to ask S3 in this node's place.
TEST_F(FillTest, OtherNodesDoNotWaitWhileOthersAskS3) {
  const auto of_a_node = [this] {
    return asio::co_spawn(pool_.Next(),
                          fill_->Wait({0, 1}, Deadline::After(std::chrono::seconds(20)), true),
                          asio::use_future);
  };
  EXPECT_EQ(of_a_node().get().error().code, Code::kOverloaded) << "this node has not begun to";
  fill_->MarkOwnGet();
  std::future<Result<Cells>> node = of_a_node();
  std::future<Result<Cells>> reader = Wait({0, 1});
  // The one thread has brought both to where they wait.
  asio::post(pool_.At(0), asio::use_future).get();
  fill_->AskOthers(true);
  EXPECT_EQ(node.get().error().code, Code::kOverloaded);
  fill_->AskOthers(false);
  node = of_a_node();
  fill_->OnAttempt();
  Deliver(fill_->block().length, std::byte{1});
  EXPECT_TRUE(reader.get().has_value());
  EXPECT_TRUE(node.get().has_value());
}

TEST_F(FillTest, AFailureReachesEveryWaiter) {
  std::future<Result<Cells>> first = Wait({0, 1});
  std::future<Result<Cells>> last = Wait({3 * kCell, 3 * kCell + 1});
  fill_->OnAttempt();
  const Status ended = fill_->Finish(Fail(Code::kUnavailable, "S3 is on fire"));
  EXPECT_FALSE(ended.has_value());
  const Error expected{Code::kUnavailable, "S3 is on fire"};
  EXPECT_EQ(first.get().error(), expected);
  EXPECT_EQ(last.get().error(), expected);
  EXPECT_EQ(Wait({0, 1}).get().error().code, Code::kUnavailable) << "who comes late learns it too";
}

TEST_F(FillTest, ABodyThatEndsEarlyIsNoSuccess) {
  fill_->OnAttempt();
  Deliver(kCell, std::byte{1});
  const Status ended = fill_->Finish(Status());
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, Code::kCorrupt);
  EXPECT_EQ(Wait({0, 1}).get().error().code, Code::kCorrupt);
}

TEST_F(FillTest, ABodyWithoutAnAttemptIsNoSuccess) {
  EXPECT_EQ(fill_->Finish(Status()).error().code, Code::kCorrupt);
}

TEST_F(FillTest, AWaiterGivesUpAtItsDeadlineAndTheFillGoesOn) {
  fill_->OnAttempt();
  EXPECT_EQ(Wait({0, 1}, std::chrono::milliseconds(20)).get().error().code, Code::kTimeout);
  Deliver(fill_->block().length, std::byte{1});
  EXPECT_TRUE(fill_->Finish(Status()).has_value());
  EXPECT_TRUE(Wait({0, 1}).get().has_value());
}

TEST_F(FillTest, MemoryIsReservedUntilTheLastAnswerIsGone) {
  Result<MemoryBudget::Reservation> memory = budget_.TryReserve(fill_->block().length);
  ASSERT_TRUE(memory.has_value());
  fill_->Hold(std::move(*memory));
  fill_->OnAttempt();
  Deliver(fill_->block().length, std::byte{1});
  ASSERT_TRUE(fill_->Finish(Status()).has_value());
  Slice answer = fill_->Data();
  fill_.reset();
  EXPECT_EQ(budget_.in_use(), Block().length);
  answer = Slice();
  EXPECT_EQ(budget_.in_use(), 0u);
}

TEST_F(FillTest, MemoryOfAFillThatNeverBeganIsGivenBack) {
  Result<MemoryBudget::Reservation> memory = budget_.TryReserve(100);
  ASSERT_TRUE(memory.has_value());
  fill_->Hold(std::move(*memory));
  EXPECT_EQ(budget_.in_use(), 100u);
  fill_.reset();
  EXPECT_EQ(budget_.in_use(), 0u);
}

}  // namespace
}  // namespace forebay
