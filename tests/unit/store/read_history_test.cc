#include "cachenode/store/read_history.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace forebay {
namespace {

const Uuid kLink = Uuid::Parse("aaaaaaaa-0000-4000-8000-000000000001");
const Uuid kOther = Uuid::Parse("bbbbbbbb-0000-4000-8000-000000000001");

BlockId Block(std::uint64_t number) {
  return {{number, number * 0x9E3779B97F4A7C15ULL + 1}, 0, 40'000};
}

class ReadHistoryTest : public ::testing::Test {
 protected:
  void ReadAll(const std::string& job, std::uint64_t begin, std::uint64_t end,
               const Uuid& link = kLink) {
    for (std::uint64_t number = begin; number < end; ++number)
      history_.NoteRead(link, job, Block(number), false);
  }
  double WorthOf(std::uint64_t number) const {
    return history_.ValueOf(kLink, Block(number)).worth;
  }

  ReadHistory history_;
};

TEST_F(ReadHistoryTest, KnowsNothingOfALinkThatNobodyHasRead) {
  EXPECT_FALSE(history_.ValueOf(kLink, Block(1)).has_jobs);
  ReadAll("one", 0, 1);
  EXPECT_TRUE(history_.ValueOf(kLink, Block(1)).has_jobs);
  EXPECT_FALSE(history_.ValueOf(kOther, Block(2)).has_jobs);
}

TEST_F(ReadHistoryTest, BlockReadLongAgoIsWorthMoreThanOneReadJustNow) {
  for (int epoch = 0; epoch < 3; ++epoch) ReadAll("one", 0, 1000);
  EXPECT_GT(WorthOf(100), 2 * WorthOf(990));
  EXPECT_TRUE(history_.ValueOf(kLink, Block(990)).just_read);
  EXPECT_FALSE(history_.ValueOf(kLink, Block(100)).just_read);
}

TEST_F(ReadHistoryTest, BlockThatTwoJobsWantIsWorthMoreThanOneThatOneWants) {
  ReadAll("one", 0, 1000);
  ReadAll("two", 0, 1000);
  for (std::uint64_t number = 0; number < 500; ++number) {
    history_.NoteRead(kLink, "one", Block(number), false);
    history_.NoteRead(kLink, "two", Block(number + 500), false);
  }
  ReadAll("one", 500, 700);
  // 100 was read by "one" in its epoch, 800 by "two", 950 by neither for long.
  ReadAll("two", 0, 100);
  EXPECT_GT(WorthOf(750), 0);
  EXPECT_GT(WorthOf(950) + WorthOf(300), WorthOf(50) + WorthOf(690));
}

TEST_F(ReadHistoryTest, ReadsInARowAreOne) {
  for (int again = 0; again < 16; ++again) {
    for (std::uint64_t number = 0; number < 4; ++number)
      history_.NoteRead(kLink, "one", Block(number), false);
  }
  EXPECT_EQ(history_.size(), 4U);
  EXPECT_TRUE(history_.ValueOf(kLink, Block(0)).just_read);
}

TEST_F(ReadHistoryTest, BlocksOfAJobThatHasGoneToAnotherLinkAreWorthNothing) {
  for (int epoch = 0; epoch < 2; ++epoch) ReadAll("one", 0, 1000);
  EXPECT_GT(WorthOf(500), 0);
  ReadAll("one", 1000, 1040, kOther);
  EXPECT_GT(WorthOf(500), 0);
  ReadAll("one", 1040, 1100, kOther);
  EXPECT_EQ(WorthOf(500), 0);
}

TEST_F(ReadHistoryTest, JobThatComesBackFromAPauseIsWaitedForTheNextTime) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    ReadAll("one", 0, 1000);
    ReadAll("one", 5000, 5200, kOther);
  }
  ReadAll("one", 0, 1000);
  ReadAll("one", 5000, 5200, kOther);
  EXPECT_GT(WorthOf(500), 0);
}

TEST_F(ReadHistoryTest, WhatAJobReadBeforeItWentOnToOtherDataIsWorthNothing) {
  for (int epoch = 0; epoch < 3; ++epoch) ReadAll("one", 0, 1000);
  EXPECT_GT(WorthOf(50), 0);
  ReadAll("one", 5000, 5150);
  EXPECT_EQ(WorthOf(50), 0);
  EXPECT_EQ(WorthOf(950), 0);
  EXPECT_GT(WorthOf(5100), 0);
  // It comes back: that it was away for so long is remembered.
  ReadAll("one", 5150, 6000);
  for (int epoch = 0; epoch < 3; ++epoch) ReadAll("one", 0, 1000);
  EXPECT_GT(WorthOf(50), 0);
}

TEST_F(ReadHistoryTest, WhatOnlyJobsOfThePastHaveReadIsWorthNothingToOneThatReadsOtherData) {
  for (int epoch = 0; epoch < 3; ++epoch) ReadAll("one", 0, 1000);
  ReadAll("two", 5000, 5500);
  EXPECT_EQ(WorthOf(50), 0);
  EXPECT_GT(WorthOf(5050), 0);
}

TEST_F(ReadHistoryTest, WhatANewJobHasNotReadYetIsWorthSomethingWhereItReadsTheSame) {
  for (int epoch = 0; epoch < 3; ++epoch) ReadAll("one", 0, 1000);
  ReadAll("two", 0, 500);
  EXPECT_GT(WorthOf(800), 0);
}

TEST_F(ReadHistoryTest, NinthJobCountsWithTheEighthUntilOneHasGone) {
  for (int job = 0; job < 9; ++job) ReadAll("job " + std::to_string(job), 0, 200);
  EXPECT_EQ(history_.size(), 200U);
  // Job 0 has not read for long: the next new one gets its place, and knows nothing of its reads.
  for (int epoch = 0; epoch < 9; ++epoch) ReadAll("job 5", 0, 200);
  ReadAll("job 10", 0, 100);
  EXPECT_GT(WorthOf(150), 0);
}

TEST_F(ReadHistoryTest, RemembersWithin40BytesACachedBlock) {
  constexpr std::uint64_t kCached = 400'000;
  const std::size_t empty = history_.MemoryBytes();
  for (const bool cached : {true, false}) {
    for (std::uint64_t number = 0; number < kCached * (cached ? 1 : 9); ++number) {
      const std::string job = "job " + std::to_string(number % 8);
      history_.NoteRead(kLink, job, Block(number + (cached ? 0 : kCached)), cached);
    }
  }
  const std::size_t streams = 8 * sizeof(ReadStream);
  const double each = static_cast<double>(history_.MemoryBytes() - empty - streams) / kCached;
  RecordProperty("bytes_per_cached_block", std::to_string(each));
  EXPECT_LE(each, 40.0);
  EXPECT_GT(history_.size(), kCached * 3 / 2);
  // What is cached is not forgotten.
  for (std::uint64_t number = 0; number < kCached; number += 1000)
    history_.NoteRead(kLink, "job 0", Block(number), true);
  EXPECT_LE(static_cast<double>(history_.MemoryBytes() - empty - streams) / kCached, 40.0);
}

TEST_F(ReadHistoryTest, ManyThreadsAtOnce) {
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        const std::uint64_t number = (i * 7919 + static_cast<std::uint64_t>(thread)) % 5000;
        history_.NoteRead(kLink, "job " + std::to_string(i % 12), Block(number), i % 2 == 0);
        history_.SetCached(Block(number / 2), i % 3 == 0);
        (void)history_.ValueOf(kLink, Block(number));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(history_.size(), 5000U);
}

}  // namespace
}  // namespace forebay
