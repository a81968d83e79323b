#include "cachenode/batch_filler.h"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using fakes::GetScript;

constexpr BatchWay kVerify{.verify = true};
constexpr BatchWay kSpare{.urgency = Urgency::kSpare};

class BatchFillerTest : public ReaderRig {
 protected:
  explicit BatchFillerTest(FillerOptions options = {}, std::size_t threads = 2)
      : ReaderRig(options, threads) {}

  CheckedRead Whole(int number) const {
    return ReadOf(TestObject("data/" + std::to_string(number), kBlock), 0, {0, kBlock});
  }
  std::vector<ColdBlock> Batch(int from, int to) const {
    std::vector<ColdBlock> blocks;
    for (int i = from; i < to; ++i) blocks.push_back(ColdOf(Whole(i)));
    return blocks;
  }
  std::future<std::vector<BatchFiller::Outcome>> StartFill(
      std::vector<ColdBlock> blocks, BatchWay way = {},
      Duration patience = std::chrono::seconds(20)) {
    return asio::co_spawn(pool_.Next(),
                          batches_.Fill(std::move(blocks), way, Deadline::After(patience)),
                          asio::use_future);
  }
  std::vector<BatchFiller::Outcome> Fill(std::vector<ColdBlock> blocks, BatchWay way = {}) {
    return StartFill(std::move(blocks), way).get();
  }
  Task<void> FillAndForget(std::vector<ColdBlock> blocks) {
    const BatchWay way;
    (void)co_await batches_.Fill(std::move(blocks), way, Deadline::After(std::chrono::seconds(20)));
  }
  static int Count(const std::vector<BatchFiller::Outcome>& outcomes, FillOutcome wanted) {
    int count = 0;
    for (const auto& outcome : outcomes) count += outcome == wanted ? 1 : 0;
    return count;
  }

  BatchFiller batches_{store_, filler_};
};

class NarrowBatchTest : public BatchFillerTest {
 protected:
  NarrowBatchTest() : BatchFillerTest(FillerOptions{.max_fills = 8}) {}  // 3 in the background
};

class LittleMemoryTest : public BatchFillerTest {
 protected:
  LittleMemoryTest() : BatchFillerTest(FillerOptions{.memory_limit = 8 * std::uint64_t{kBlock}}) {}
};

// Blocks land in any order. Were those that have landed to hold their memory until the batch comes
// to them, it could be all of what the first one waits for.
TEST_F(LittleMemoryTest, WhatHasLandedHoldsNoMemoryWhileTheBatchWaitsForAnother) {
  s3_.OnGet([](const GetRequest& get) {
    return get.key == "data/0" ? GetScript{.hold_after = 0} : GetScript{};
  });
  auto batch = StartFill(Batch(0, 20));
  EXPECT_TRUE(Eventually([this] { return s3_.gets() == 20 && filler_.in_flight() == 1; }));
  // The last fill is out of flight a moment before the batch lets go of its block.
  EXPECT_TRUE(Eventually([this] { return filler_.memory_in_use() == kBlock; }));
  s3_.Release();
  EXPECT_EQ(Count(batch.get(), FillOutcome::kFilled), 20);
}

TEST_F(BatchFillerTest, FillsWhatIsMissingAndSaysWhatWasThere) {
  EXPECT_EQ(Count(Fill(Batch(0, 10)), FillOutcome::kFilled), 10);
  const std::vector<BatchFiller::Outcome> outcomes = Fill(Batch(5, 20));
  EXPECT_EQ(Count(outcomes, FillOutcome::kKept), 5);
  EXPECT_EQ(Count(outcomes, FillOutcome::kFilled), 10);
  EXPECT_EQ(outcomes[4], FillOutcome::kKept) << "in their order";
  EXPECT_EQ(outcomes[5], FillOutcome::kFilled);
  EXPECT_EQ(s3_.gets(), 20u);
  EXPECT_EQ(count().reads, 0u) << "nobody has read anything";
}

TEST_F(BatchFillerTest, TwoBatchesOfTheSameBlocksCostOneGetEach) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  auto first = StartFill(Batch(0, 20));
  ASSERT_TRUE(s3_.WaitForHeld(20));
  auto second = StartFill(Batch(0, 20));
  s3_.Release();
  EXPECT_EQ(Count(first.get(), FillOutcome::kFilled), 20);
  for (const auto& outcome : second.get()) EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(s3_.gets(), 20u);
}

TEST_F(BatchFillerTest, WhatFailsHasItsReasonAndTheOthersGoOn) {
  s3_.OnGet([](const GetRequest& get) {
    if (get.key == "data/3") return GetScript{.error = Error{Code::kNotFound, "it is gone"}};
    return GetScript{};
  });
  const std::vector<BatchFiller::Outcome> outcomes = Fill(Batch(0, 8));
  EXPECT_EQ(Count(outcomes, FillOutcome::kFilled), 7);
  ASSERT_FALSE(outcomes[3].has_value());
  EXPECT_EQ(outcomes[3].error().code, Code::kStale);
  EXPECT_EQ(outcomes[3].error().message, "it is gone");
}

TEST_F(NarrowBatchTest, ABatchThatIsCancelledCostsNoGetThatWasNotUnderWay) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  asio::cancellation_signal cancel;
  std::promise<void> ended;
  Spawn(pool_.At(0).get_executor(), FillAndForget(Batch(0, 50)), cancel.slot(),
        [&ended] { ended.set_value(); });
  ASSERT_TRUE(s3_.WaitForHeld(3));
  auto other = StartFill(Batch(10, 12));
  Settle();
  auto reader = Start(Whole(20));
  ASSERT_TRUE(s3_.WaitForHeld(4)) << "it does not wait behind the batch";
  asio::post(pool_.At(0), [&cancel] { cancel.emit(asio::cancellation_type::terminal); });
  ended.get_future().wait();
  s3_.Release();
  EXPECT_TRUE(AreRight(reader.get(), Whole(20)));
  EXPECT_EQ(Count(other.get(), FillOutcome::kFilled), 2) << "another batch still wants these";
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(s3_.gets(), 3U + 1U + 2U);
  // Whoever wants them later gets them.
  EXPECT_EQ(Count(Fill(Batch(0, 50)), FillOutcome::kFilled), 50 - 6);
}

TEST_F(NarrowBatchTest, ACancelledBatchDoesNotUseUpTheLimit) {
  filler_.brakes().budget().Set(FillLimits{.paused_since_unix_s = 1});
  asio::cancellation_signal cancel;
  std::promise<void> ended;
  Spawn(pool_.At(0).get_executor(), FillAndForget(Batch(0, 50)), cancel.slot(),
        [&ended] { ended.set_value(); });
  Settle();
  asio::post(pool_.At(0), [&cancel] { cancel.emit(asio::cancellation_type::terminal); });
  ended.get_future().wait();
  EXPECT_TRUE(Eventually([this] { return IsIdle(); })) << "also while fills are paused";
  EXPECT_EQ(s3_.gets(), 0U);
}

TEST_F(NarrowBatchTest, AFullStoreIsNotPaidForWithAGetForEachBlock) {
  store_.RefuseAdmissions(Error{Code::kOverloaded, "no space that may be freed"});
  EXPECT_EQ(Count(Fill(Batch(0, 200)), FillOutcome::kNoRoom), 200);
  EXPECT_LT(s3_.gets(), 20u);
  int remembered = 0;
  for (const ColdBlock& cold : Batch(0, 200))
    remembered += history_.Find(cold.block).loss == BlockLoss::kNoRoom ? 1 : 0;
  EXPECT_GE(remembered, 190) << "with or without a GET; now and then one displaces another";
  store_.RefuseAdmissions(std::nullopt);
  // Room that comes back is found by a probe; what failed for want of room is asked for again.
  EXPECT_TRUE(
      Eventually([this] { return Count(Fill(Batch(500, 501)), FillOutcome::kFilled) == 1; }));
  EXPECT_EQ(Count(Fill(Batch(0, 200)), FillOutcome::kFilled), 200);
}

TEST_F(NarrowBatchTest, RoomThatWasMadeIsThereForWholeBatchesAtOnce) {
  store_.RefuseAdmissions(Error{Code::kOverloaded, "the link is at its quota here"});
  EXPECT_EQ(Count(Fill(Batch(0, 200)), FillOutcome::kNoRoom), 200);
  store_.RefuseAdmissions(std::nullopt);
  store_.MakeRoom();
  EXPECT_EQ(Count(Fill(Batch(0, 200)), FillOutcome::kFilled), 200);
}

TEST_F(NarrowBatchTest, APreloadThatBeginsIsNotRefusedForWhatWasBefore) {
  store_.RefuseAdmissions(Error{Code::kOverloaded, "no space that may be freed"});
  EXPECT_EQ(Count(Fill(Batch(0, 200), {.run = 1}), FillOutcome::kNoRoom), 200);
  const std::uint64_t gets = s3_.gets();
  EXPECT_EQ(Count(Fill(Batch(200, 400), {.run = 1}), FillOutcome::kNoRoom), 200);
  EXPECT_LE(s3_.gets(), gets + 1) << "the same one goes by what it knows";
  // Time alone has made room: nobody has said so.
  store_.RefuseAdmissions(std::nullopt);
  EXPECT_EQ(Count(Fill(Batch(0, 200), {.run = 2}), FillOutcome::kFilled), 200);
}

TEST_F(BatchFillerTest, WhatAnotherNodeHasIsCachedForAPreloadAndNotMoved) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true}; });
  store_.RefuseAdmissions(Error{Code::kOverloaded, "no space that may be freed"});
  EXPECT_EQ(Count(Fill(Batch(0, 3)), FillOutcome::kKept), 3) << "as `check` says it";
  EXPECT_EQ(s3_.gets(), 0u);
  // A drain wants it here.
  EXPECT_EQ(Count(Fill(Batch(10, 13), {.peers_only = true}), FillOutcome::kNoRoom), 3);
}

TEST_F(BatchFillerTest, ADiskThatRefusesToWriteIsNoRoomEither) {
  store_.RefuseAdmissions(Error{Code::kInternal, "the disk is read-only"});
  EXPECT_EQ(Count(Fill(Batch(0, 1)), FillOutcome::kNoRoom), 1);
  EXPECT_EQ(history_.Find(Batch(0, 1).front().block).loss, BlockLoss::kUnwritable);
}

TEST_F(BatchFillerTest, VerifyFetchesWhatDoesNotMatch) {
  EXPECT_EQ(Count(Fill(Batch(0, 4)), FillOutcome::kFilled), 4);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(Count(Fill(Batch(0, 4), kVerify), FillOutcome::kKept), 4);
  EXPECT_EQ(s3_.gets(), 4u);
  store_.RefuseReads(Error{Code::kOverloaded, "too much disk work is waiting"});
  const std::vector<BatchFiller::Outcome> unknown = Fill(Batch(0, 1), kVerify);
  ASSERT_FALSE(unknown[0].has_value());
  EXPECT_EQ(unknown[0].error().code, Code::kOverloaded) << "not known is not kept";
}

TEST_F(NarrowBatchTest, AReaderOvertakesTheBatchAndJoinsWhatItReads) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  auto batch = StartFill(Batch(0, 100));
  ASSERT_TRUE(s3_.WaitForHeld(3)) << "the background's share";
  // A block of the batch that waits for its turn, and one that is not in it.
  auto joined = Start(Whole(90));
  auto other = Start(Whole(1000));
  ASSERT_TRUE(s3_.WaitForHeld(5)) << "both begin at once";
  EXPECT_EQ(s3_.gets(), 5u);
  s3_.Release();
  EXPECT_TRUE(AreRight(joined.get(), Whole(90)));
  EXPECT_TRUE(AreRight(other.get(), Whole(1000)));
  EXPECT_EQ(Count(batch.get(), FillOutcome::kFilled), 100);
  EXPECT_EQ(s3_.gets(), 101u);
  EXPECT_LE(s3_.most_at_once(), 8u);
}

// One thread: of two, one may be late to S3 with a fill whose turn came early.
class NarrowBatchInOrderTest : public BatchFillerTest {
 protected:
  NarrowBatchInOrderTest() : BatchFillerTest(FillerOptions{.max_fills = 8}, 1) {}
};

TEST_F(NarrowBatchInOrderTest, APreloadOvertakesASpareFillAndAReaderBoth) {
  std::mutex mutex;
  std::vector<std::string> asked;
  s3_.OnGet([&](const GetRequest& get) {
    const std::scoped_lock lock(mutex);
    asked.push_back(get.key);
    return GetScript{.hold_after = 0};
  });
  auto spare = StartFill(Batch(0, 40), kSpare);
  ASSERT_TRUE(s3_.WaitForHeld(3)) << "the background's share";
  ASSERT_TRUE(Eventually([&] { return filler_.in_flight() == 40; }));
  Settle();
  auto preload = StartFill(Batch(35, 45));
  ASSERT_TRUE(Eventually([&] { return filler_.in_flight() == 45; }));
  Settle();
  auto reader = Start(Whole(39));
  ASSERT_TRUE(s3_.WaitForHeld(4)) << "a reader waits for nobody in the background";
  s3_.Release();
  EXPECT_TRUE(AreRight(reader.get(), Whole(39)));
  EXPECT_EQ(Count(preload.get(), FillOutcome::kFilled), 10);
  EXPECT_EQ(Count(spare.get(), FillOutcome::kFilled), 40);
  ASSERT_EQ(asked.size(), 45u) << "one GET each";
  EXPECT_EQ(asked[3], "data/39");
  // Behind the three that were under way and the reader's come the preload's other nine.
  std::set<std::string> next(asked.begin() + 4, asked.begin() + 13);
  for (int i = 35; i < 45; ++i) EXPECT_EQ(next.contains("data/" + std::to_string(i)), i != 39) << i;
}

TEST_F(NarrowBatchTest, ASpareFillTakesFreeRoomOnlyAndPaysForNothingElse) {
  store_.LimitRoom(std::uint64_t{10} * kBlock);
  const std::vector<BatchFiller::Outcome> outcomes = Fill(Batch(0, 50), kSpare);
  const int filled = Count(outcomes, FillOutcome::kFilled);
  EXPECT_EQ(Count(outcomes, FillOutcome::kNoRoom), 50 - filled);
  EXPECT_LE(filled, 10);
  EXPECT_GE(filled, 10 - 3) << "the last ones stand back for each other's room";
  EXPECT_EQ(s3_.gets(), static_cast<std::uint64_t>(filled)) << "no GET is thrown away";
  EXPECT_EQ(store_.counters().evicted_blocks, 0u);
  // What somebody asks for may still make room.
  EXPECT_EQ(Count(Fill(Batch(40, 50)), FillOutcome::kFilled), 10);
  EXPECT_GT(store_.counters().evicted_blocks, 0u);
}

TEST_F(NarrowBatchTest, ASpareFillThatAReaderJoinedIsKeptLikeTheReaders) {
  store_.LimitRoom(kBlock * 3 / 2 + kBlock);
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  auto spare = StartFill(Batch(0, 1), kSpare);
  ASSERT_TRUE(s3_.WaitForHeld(1));
  store_.LimitRoom(0);  // others took it meanwhile
  auto reader = Start(Whole(0));
  Settle();
  s3_.Release();
  EXPECT_TRUE(AreRight(reader.get(), Whole(0)));
  EXPECT_EQ(Count(spare.get(), FillOutcome::kFilled), 1);
}

TEST_F(NarrowBatchTest, AnotherNodesReaderTakesItOutOfTheBackgroundToo) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  auto batch = StartFill(Batch(0, 100));
  ASSERT_TRUE(s3_.WaitForHeld(3));
  CheckedRead peer = Whole(90);
  peer.request.peer_only = true;
  ASSERT_TRUE(Eventually([&] { return filler_.in_flight() == 100; }));
  Settle();
  auto joined = Start(peer);
  ASSERT_TRUE(s3_.WaitForHeld(4));
  s3_.Release();
  EXPECT_TRUE(AreRight(joined.get(), peer));
  EXPECT_EQ(Count(batch.get(), FillOutcome::kFilled), 100);
  EXPECT_EQ(s3_.gets(), 100u);
}

TEST_F(NarrowBatchTest, ACallerThatGoesAwayLosesNothing) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  const auto outcomes = StartFill(Batch(0, 10), {}, std::chrono::milliseconds(50)).get();
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error().code, Code::kTimeout);
  s3_.Release();
  for (const auto& outcome : Fill(Batch(0, 10))) EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(s3_.gets(), 10u);
}

}  // namespace
}  // namespace forebay
