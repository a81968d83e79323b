#include "cachenode/filler.h"

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using fakes::GetScript;

class FillerTest : public ReaderRig {
 protected:
  using ReaderRig::ReaderRig;

  CheckedRead Whole(int number) const {
    return ReadOf(TestObject("data/" + std::to_string(number), kBlock), 0, {0, kBlock});
  }
};

class NarrowFillerTest : public FillerTest {
 protected:
  NarrowFillerTest() : FillerTest(FillerOptions{.max_fills = 2}) {}
};

class ImpatientFillerTest : public FillerTest {
 protected:
  ImpatientFillerTest()
      : FillerTest(FillerOptions{.s3_timeout = std::chrono::milliseconds(500), .max_fills = 2}) {}
};

class SmallFillerTest : public FillerTest {
 protected:
  SmallFillerTest()
      : FillerTest(FillerOptions{.s3_timeout = std::chrono::seconds(1),
                                 .memory_limit = 5 * std::uint64_t{kBlock}}) {}
};

TEST_F(NarrowFillerTest, NoMoreFillsRunAtOnceThanAllowed) {
  std::vector<std::future<Result<Cells>>> reads;
  constexpr int kReads = 50;
  reads.reserve(kReads);
  for (int i = 0; i < kReads; ++i) reads.push_back(Start(Whole(i)));
  for (int i = 0; i < kReads; ++i) {
    EXPECT_TRUE(AreRight(reads[static_cast<std::size_t>(i)].get(), Whole(i)));
  }
  EXPECT_EQ(s3_.gets(), static_cast<std::uint64_t>(kReads));
  EXPECT_LE(s3_.most_at_once(), 2u);
}

TEST_F(FillerTest, ARetryCountsAgainstTheLimitLikeAnyRequest) {
  filler_.brakes().budget().Set(FillLimits{.requests_per_s = 10});
  ASSERT_TRUE(Read(Whole(0)).has_value());
  // Of what five seconds allow.
  EXPECT_DOUBLE_EQ(filler_.brakes().budget().UseRatio(Clock::now()), 1.0 / 50);
  s3_.OnGet([](const GetRequest&) { return GetScript{.broken_attempt = 100}; });
  ASSERT_TRUE(Read(Whole(1)).has_value());
  EXPECT_DOUBLE_EQ(filler_.brakes().budget().UseRatio(Clock::now()), 3.0 / 50);
}

TEST_F(ImpatientFillerTest, AFillThatS3DoesNotAnswerEndsWithS3sReason) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_FALSE(cells.has_value());
  EXPECT_EQ(cells.error().code, Code::kTimeout);
  EXPECT_EQ(cells.error().message, "S3 at test does not answer");
}

TEST_F(ImpatientFillerTest, CachedBlocksAreServedWhileS3DoesNotAnswer) {
  EXPECT_TRUE(Read(Whole(0)).has_value());
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::vector<std::future<Result<Cells>>> cold;
  for (int i = 1; i < 10; ++i) cold.push_back(Start(Whole(i)));
  ASSERT_TRUE(s3_.WaitForHeld(2));
  EXPECT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  for (auto& one : cold) {
    const Result<Cells> failed = one.get();
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, Code::kTimeout) << failed.error().message;
  }
}

TEST_F(NarrowFillerTest, WhatNobodyWaitsForDoesNotStandInLine) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::future<Result<Cells>> first = Start(Whole(0));
  std::future<Result<Cells>> second = Start(Whole(1));
  ASSERT_TRUE(s3_.WaitForHeld(2));
  EXPECT_EQ(reader_.Prefetch(ColdOf(Whole(2)), "job"), Prefetched::kRefused);
  EXPECT_EQ(reader_.Prefetch(ColdOf(Whole(0)), "job"), Prefetched::kHere) << "it is on its way";
  EXPECT_EQ(reader_.Prefetch(ColdOf(Whole(3)), "job", Urgency::kReader), Prefetched::kBegun)
      << "a reader waits for it at another node";
  s3_.Release();
  EXPECT_TRUE(first.get().has_value());
  EXPECT_TRUE(second.get().has_value());
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(reader_.Prefetch(ColdOf(Whole(2)), "job"), Prefetched::kBegun);
}

TEST_F(SmallFillerTest, AnswersThatAreHeldCountAsMemory) {
  std::vector<Result<Cells>> held;
  for (int i = 0; i < 5; ++i) {
    held.push_back(Read(Whole(i)));
    ASSERT_TRUE(held.back().has_value()) << i;
  }
  EXPECT_EQ(filler_.memory_in_use(), 5u * kBlock);
  const Result<Cells> sixth = Read(Whole(5));
  ASSERT_FALSE(sixth.has_value());
  EXPECT_EQ(sixth.error().code, Code::kOverloaded);
  EXPECT_EQ(s3_.gets(), 5u);
  held.clear();
  EXPECT_TRUE(AreRight(Read(Whole(5)), Whole(5)));
}

TEST_F(NarrowFillerTest, ABlockIsInTheStoreBeforeItsFillLeaves) {
  for (int i = 0; i < 50; ++i) {
    const CheckedRead read = Whole(i);
    const Filler::Seat seat = filler_.JoinOrStart(ColdOf(read), true);
    ASSERT_TRUE(seat.leads);
    // Whoever looks sees the running fill or the stored block: never neither.
    while (filler_.Running(link_->id, read.request.block)) {
    }
    EXPECT_TRUE(store_.Contains(read.request.block));
  }
}

TEST_F(NarrowFillerTest, AfterStopNothingIsFetched) {
  EXPECT_TRUE(filler_.Stop(Deadline::After(std::chrono::seconds(20))));
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_FALSE(cells.has_value());
  EXPECT_EQ(cells.error().code, Code::kUnavailable);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(NarrowFillerTest, StopSaysWhenAFillOutlastsIt) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::future<Result<Cells>> cold = Start(Whole(0));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  EXPECT_FALSE(filler_.Stop(Deadline::After(std::chrono::milliseconds(10))));
  s3_.Interrupt();
  EXPECT_EQ(cold.get().error().message, "the store is stopping");
}

}  // namespace
}  // namespace forebay
