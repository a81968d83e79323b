#include "cachenode/store/block_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace forebay {
namespace {

constexpr Hour kNow = 490'000;

BlockId Block(std::uint64_t number) {
  return {{number / 7, number * 0x9E3779B97F4A7C15ULL}, (number % 7) << 22, 40'000};
}

TEST(BlockIndex, AgreesWithAMapOverRandomOperations) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  BlockIndex index;
  std::map<BlockId, BlockPlace> model;
  for (std::uint32_t step = 0; step < 200'000; ++step) {
    const BlockId block = Block(random() % 20'000);
    const auto known = model.find(block);
    if (random() % 5 < 3) {
      const BlockPlace place{static_cast<std::uint8_t>(random() % 64), step, step * 3};
      ASSERT_EQ(index.Insert(block, place, kNow).has_value(), known == model.end());
      model.emplace(block, place);
    } else if (const auto leaving = index.BeginRemove(block)) {
      ASSERT_NE(known, model.end());
      ASSERT_EQ(leaving->place, known->second);
      ASSERT_TRUE(index.FinishRemove(leaving->handle));
      model.erase(known);
    } else {
      ASSERT_EQ(known, model.end());
    }
    ASSERT_EQ(index.size(), model.size());
  }
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    const auto known = model.find(Block(number));
    const auto found = index.Find(Block(number));
    ASSERT_EQ(found.has_value(), known != model.end());
    if (found) ASSERT_EQ(*found, known->second);
  }
}

TEST(BlockIndex, BlockWithAReaderIsFreedByItsLastReader) {
  BlockIndex index;
  ASSERT_TRUE(index.Insert(Block(1), {0, 1, 2}, kNow));
  const auto first = index.Acquire(Block(1), kNow);
  const auto second = index.Acquire(Block(1), kNow);
  ASSERT_TRUE(first && second);
  const auto leaving = index.BeginRemove(Block(1));
  ASSERT_TRUE(leaving);
  EXPECT_FALSE(index.FinishRemove(leaving->handle));
  EXPECT_FALSE(index.Find(Block(1)));
  EXPECT_TRUE(index.Insert(Block(1), {0, 9, 9}, kNow)) << "the block may come back meanwhile";
  EXPECT_FALSE(index.Release(first->handle));
  EXPECT_TRUE(index.Release(second->handle));
  EXPECT_EQ(index.Find(Block(1))->segment, 9U);
}

// Looks take no lock: tables grow, entries move and slots change hands under them.
TEST(BlockIndex, BlocksThatStayAreAlwaysFoundWhileOthersComeAndGo) {
  constexpr std::uint64_t kStaying = 500;
  constexpr std::uint64_t kOthers = 20'000;
  const auto place_of = [](std::uint64_t number) {
    return BlockPlace{1, 7, static_cast<std::uint32_t>(number)};
  };
  BlockIndex index;
  for (std::uint64_t i = 0; i < kStaying; ++i) ASSERT_TRUE(index.Insert(Block(i), place_of(i), 1));
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> looks{0};
  std::atomic<std::uint64_t> removed{0};
  std::atomic<std::uint64_t> freed{0};
  const auto read = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    while (!done) {
      const std::uint64_t stays = random() % kStaying;
      const auto found = index.Find(Block(stays));
      EXPECT_TRUE(found && *found == place_of(stays)) << stays;
      const std::uint64_t other = kStaying + random() % kOthers;
      const auto held = index.Acquire(Block(other), 1);
      if (held) {
        EXPECT_EQ(held->block, Block(other));
        EXPECT_EQ(held->place, place_of(other));
        if (index.Release(held->handle)) ++freed;
      }
      ++looks;
    }
  };
  const auto change = [&](std::uint64_t first) {
    for (int pass = 0; pass < 3; ++pass) {
      for (std::uint64_t i = first; i < kOthers; i += 2)
        EXPECT_TRUE(index.Insert(Block(kStaying + i), place_of(kStaying + i), 1));
      for (std::uint64_t i = first; i < kOthers; i += 2) {
        const auto leaving = index.BeginRemove(Block(kStaying + i));
        ASSERT_TRUE(leaving);
        ++removed;
        if (index.FinishRemove(leaving->handle)) ++freed;
      }
    }
  };
  {
    std::jthread reader(read, 1U);
    std::jthread second_reader(read, 2U);
    {
      std::jthread changer(change, 0U);
      std::jthread second_changer(change, 1U);
    }
    while (looks < 1000) std::this_thread::yield();
    done = true;
  }
  EXPECT_EQ(index.size(), kStaying);
  EXPECT_EQ(freed, removed) << "each removed block's space is freed once, by whoever was last";
}

TEST(BlockIndex, LeavingBlockIsNotServedAndNotReplaced) {
  BlockIndex index;
  ASSERT_TRUE(index.Insert(Block(1), {0, 1, 2}, kNow));
  const auto leaving = index.BeginRemove(Block(1));
  ASSERT_TRUE(leaving);
  EXPECT_FALSE(index.Acquire(Block(1), kNow));
  EXPECT_FALSE(index.BeginRemove(Block(1)));
  EXPECT_FALSE(index.Insert(Block(1), {0, 5, 5}, kNow));
  EXPECT_TRUE(index.Occupied(Block(1)));
  index.CancelRemove(leaving->handle);
  EXPECT_EQ(index.Find(Block(1))->segment, 1U);
}

TEST(BlockIndex, HandleOfAnotherSegmentRemovesNothing) {
  BlockIndex index;
  const auto handle = index.Insert(Block(1), {3, 1, 2}, kNow);
  ASSERT_TRUE(handle);
  EXPECT_FALSE(index.BeginRemove(*handle, 3, 2, {}).found);
  EXPECT_FALSE(index.BeginRemove(*handle, 2, 1, {}).found);
  EXPECT_TRUE(index.BeginRemove(*handle, 3, 1, {}).found);
}

TEST(BlockIndex, PinnedBlockIsSparedUnlessItMustGo) {
  BlockIndex index;
  const auto handle = index.Insert(Block(1), {0, 1, 2}, kNow, true);
  ASSERT_TRUE(handle);
  EXPECT_TRUE(index.BeginRemove(Block(1), {}).pinned);
  EXPECT_TRUE(index.BeginRemove(*handle, 0, 1, {}).pinned);
  EXPECT_TRUE(index.Find(Block(1)));
  const auto leaving = index.BeginRemove(*handle, 0, 1, {.pinned = false});
  ASSERT_TRUE(leaving.found);
  EXPECT_TRUE(leaving.found->pinned);
}

TEST(BlockIndex, MarkAndSweepUnpinsWhatWasNotNamedAgain) {
  BlockIndex index;
  std::vector<BlockHandle> handles;
  handles.reserve(3);
  for (std::uint64_t i = 0; i < 3; ++i)
    handles.push_back(*index.Insert(Block(i), {0, 1, static_cast<std::uint32_t>(i)}, kNow, i < 2));
  for (const BlockHandle handle : handles) index.Unmark(handle, 0, 1);
  EXPECT_TRUE(index.Pin(Block(0))->pinned);
  EXPECT_FALSE(index.Pin(Block(2))->pinned);
  EXPECT_FALSE(index.UnpinUnmarked(handles[0], 0, 1));
  EXPECT_EQ(index.UnpinUnmarked(handles[1], 0, 1)->block, Block(1));
  EXPECT_FALSE(index.UnpinUnmarked(handles[1], 0, 1));
  EXPECT_FALSE(index.UnpinUnmarked(handles[2], 0, 1));
  EXPECT_FALSE(index.BeginRemove(Block(0), {}).found);
  EXPECT_TRUE(index.BeginRemove(Block(1), {}).found);
  EXPECT_FALSE(index.BeginRemove(Block(2), {}).found);
  EXPECT_FALSE(index.Pin(Block(9)));
}

TEST(BlockIndex, KnowsToTheHourWhenABlockWasUsedLast) {
  BlockIndex index;
  ASSERT_TRUE(index.Insert(Block(1), {0, 1, 2}, kNow));
  EXPECT_FALSE(index.LookAt(Block(1), {.used_since = kNow}).found);
  EXPECT_TRUE(index.LookAt(Block(1), {.used_since = kNow + 1}).found);
  EXPECT_FALSE(index.Release(index.Acquire(Block(1), kNow + 5)->handle));
  EXPECT_FALSE(index.LookAt(Block(1), {.used_since = kNow + 5}).found);
  // A look that is no use, and a clock that went back, change nothing.
  EXPECT_FALSE(index.Release(index.Acquire(Block(1), 0)->handle));
  EXPECT_FALSE(index.BeginRemove(Block(1), {.used_since = kNow + 5}).found);
  EXPECT_TRUE(index.BeginRemove(Block(1), {.used_since = kNow + 6}).found);
}

TEST(BlockIndex, HoldsTheLastBlockOfTheLargestObjectAndNoneBeyond) {
  BlockIndex index;
  const BlockId last{{1, 2}, kMaxObjectBytes - 1, 1};
  ASSERT_TRUE(index.Insert(last, {0, 1, 2}, kNow));
  EXPECT_TRUE(index.Find(last));
  EXPECT_FALSE(index.Insert({{1, 2}, 1ULL << 44, 1}, {0, 1, 2}, kNow));
  EXPECT_FALSE(index.Find({{1, 2}, 1ULL << 44, 1}));
}

TEST(BlockIndex, ForgettingADiskKeepsTheOthers) {
  BlockIndex index;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(index.Insert(Block(i), {static_cast<std::uint8_t>(i % 3), 1, 1}, kNow));
  }
  index.ForgetDisk(1);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(index.Find(Block(i)).has_value(), i % 3 != 1);
  }
}

TEST(BlockIndex, TakesAtMost60BytesABlock) {
  BlockIndex index;
  double worst = 0;
  constexpr std::uint64_t kBlocks = 2'000'000;
  for (std::uint64_t i = 1; i <= kBlocks; ++i) {
    ASSERT_TRUE(index.Insert(Block(i), {0, 1, 1}, kNow));
    if (i >= 500'000 && i % 10'000 == 0) {
      worst = std::max(worst, static_cast<double>(index.MemoryBytes()) / static_cast<double>(i));
    }
  }
  // What a segment's list of handles adds: 4 bytes, twice that just after the list has grown.
  constexpr double kHandle = 8;
  std::printf("memory per block at worst: index %.1f, with its segment's handle %.1f bytes\n",
              worst, worst + kHandle);
  EXPECT_LE(worst + kHandle, 60.0);
}

}  // namespace
}  // namespace forebay
