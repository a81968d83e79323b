#include "cachenode/block_history.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace forebay {
namespace {

BlockId BlockNumber(std::uint64_t number) { return {{number, number}, 0, 1}; }

class BlockHistoryTest : public ::testing::Test {
 protected:
  std::int64_t now_ = 1000;
  BlockHistory history_{[this] { return now_; }};
};

TEST_F(BlockHistoryTest, SaysWhoReadABlockLastAndWhyItWent) {
  now_ = 1010;
  history_.NoteRead(BlockNumber(1), "a");
  now_ = 1020;
  history_.NoteRead(BlockNumber(1), "b");
  now_ = 1030;
  history_.NoteLoss(BlockNumber(1), BlockLoss::kReplaced);
  history_.NoteRead(BlockNumber(2), "");
  const BlockEvents one = history_.Find(BlockNumber(1));
  EXPECT_EQ(one.read_unix_s, 1020);
  EXPECT_EQ(one.job, "b");
  EXPECT_EQ(one.lost_unix_s, 1030);
  EXPECT_EQ(one.loss, BlockLoss::kReplaced);
  EXPECT_EQ(one.since_unix_s, 1000);
  const BlockEvents two = history_.Find(BlockNumber(2));
  EXPECT_EQ(two.read_unix_s, 1030);
  EXPECT_EQ(two.job, "");
  EXPECT_EQ(two.lost_unix_s, 0);
}

TEST_F(BlockHistoryTest, OfABlockThatNothingHappenedToItIsKnownSinceTheStart) {
  now_ = 2000;
  const BlockEvents events = history_.Find(BlockNumber(1));
  EXPECT_EQ(events.since_unix_s, 1000);
  EXPECT_EQ(events.read_unix_s, 0);
  EXPECT_EQ(events.lost_unix_s, 0);
}

TEST_F(BlockHistoryTest, WhatAnotherBlockDisplacedIsNotKnownNeitherReadNorUnread) {
  const BlockId first = BlockNumber(0);
  now_ = 1010;
  history_.NoteRead(first, "a");
  history_.NoteLoss(first, BlockLoss::kAsked);
  now_ = 1020;
  std::uint64_t number = 0;
  while (history_.Find(first).read_unix_s != 0) {
    ASSERT_LT(++number, 100 * BlockHistory::kPlaces) << "the memory has no bound";
    history_.NoteRead(BlockNumber(number), "b");
  }
  const BlockEvents displaced = history_.Find(first);
  EXPECT_EQ(displaced.since_unix_s, 1020);
  EXPECT_EQ(displaced.job, "");
  EXPECT_EQ(displaced.lost_unix_s, 0);
  const BlockEvents second = history_.Find(BlockNumber(number));
  EXPECT_EQ(second.since_unix_s, 1020);
  EXPECT_EQ(second.job, "b");
  EXPECT_EQ(second.lost_unix_s, 0) << "that was the first's";
}

TEST_F(BlockHistoryTest, TheBlocksOfALargeFileHavePlacesOfTheirOwn) {
  constexpr std::uint64_t kBlocks = 256;
  for (const std::uint64_t length : {1ULL << 18, 1ULL << 20, 1ULL << 22, 1ULL << 24}) {
    const auto block = [length](std::uint64_t n) {
      return BlockId{{1, 0x123456789abcdefULL}, n * length, static_cast<std::uint32_t>(length)};
    };
    for (std::uint64_t n = 0; n < kBlocks; ++n) history_.NoteRead(block(n), "");
    std::uint64_t remembered = 0;
    for (std::uint64_t n = 0; n < kBlocks; ++n)
      remembered += history_.Find(block(n)).read_unix_s != 0;
    // By chance 256 of 131,072 places are the same 0.25 times.
    EXPECT_GE(remembered, kBlocks - 3) << "blocks of " << length << " bytes";
  }
}

TEST_F(BlockHistoryTest, OnlyTheNewestJobsHaveNames) {
  const auto job = [](std::size_t number) { return "job-" + std::to_string(number); };
  history_.NoteRead(BlockNumber(0), job(0));
  for (std::size_t i = 1; i < BlockHistory::kJobs; ++i) history_.NoteRead(BlockNumber(1), job(i));
  EXPECT_EQ(history_.Find(BlockNumber(0)).job, job(0)) << "so many are known";
  history_.NoteRead(BlockNumber(1), job(BlockHistory::kJobs));
  EXPECT_EQ(history_.Find(BlockNumber(1)).job, job(BlockHistory::kJobs));
  EXPECT_EQ(history_.Find(BlockNumber(0)).job, "") << "no other job's name";
  EXPECT_EQ(history_.Find(BlockNumber(0)).read_unix_s, 1000) << "but that it was read";
  history_.NoteRead(BlockNumber(0), job(0));
  EXPECT_EQ(history_.Find(BlockNumber(0)).job, job(0)) << "it has a new number";
  history_.NoteRead(BlockNumber(1), std::string(kMaxJobIdBytes + 1, 'j'));
  EXPECT_EQ(history_.Find(BlockNumber(1)).job, "") << "too long to be kept";
}

TEST_F(BlockHistoryTest, ManyThreadsNoteAtOnce) {
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 5000; ++i) {
        history_.NoteRead(BlockNumber(i), "job-" + std::to_string((i + t) % 2000));
        history_.NoteLoss(BlockNumber(i), BlockLoss::kNoRoom);
        (void)history_.Find(BlockNumber(i));
      }
    });
  }
  threads.clear();
  std::uint64_t remembered = 0;
  std::uint64_t reads = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const BlockEvents events = history_.Find(BlockNumber(i));
    remembered += events.loss == BlockLoss::kNoRoom;
    reads += events.read_unix_s == 1000;
  }
  // A read that would have had to wait for another thread is not remembered: with TSan, which makes
  // locks long, more than half of them.
  EXPECT_GE(reads, 500u);
  EXPECT_GE(remembered, 4700u) << "about 100 pairs share a place by chance";
}

}  // namespace
}  // namespace forebay
