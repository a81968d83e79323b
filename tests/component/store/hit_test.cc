#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "cachenode/store/cache_directory.h"
#include "tests/component/store/store_fixture.h"
#include "tests/fakes/file_system.h"
#include "tests/fakes/lock_count.h"

namespace forebay {
namespace {

constexpr int kAttempts = 100;  // a kernel may take pages away at any moment

/// What one read of a block costs beside its time.
struct Cost {
  std::uint64_t in_place = 0;
  std::uint64_t elsewhere = 0;
  std::uint64_t locks = 0;
};

Task<Result<Cost>> ReadCounted(BlockStore& store, BlockId block, BlockRange range) {
  const BlockStore::Counters& counters = store.counters();
  const std::uint64_t in_place = counters.reads_in_place;
  const std::uint64_t elsewhere = counters.reads_elsewhere;
  const std::uint64_t locks = fakes::LocksTaken();
  store.NoteRead(LinkNumber(1), block, "job");
  const Result<Cells> cells = co_await store.Read(block, range);
  const std::uint64_t taken = fakes::LocksTaken() - locks;
  if (!cells) co_return Fail(cells.error());
  co_return Cost{.in_place = counters.reads_in_place - in_place,
                 .elsewhere = counters.reads_elsewhere - elsewhere,
                 .locks = taken};
}

void DropPages(const std::string& directory) {
  for (const auto& segment : SegmentsBelow(directory)) {
    const FileDescriptor fd(::open(segment.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    ASSERT_EQ(::fdatasync(fd.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
}

class StoreHit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fakes::KnowsNoWait(dir_.path())) GTEST_SKIP() << "this file system has no RWF_NOWAIT";
    ASSERT_TRUE(store_.open());
  }

  /// Reads until the page cache has it, or until it has not.
  Cost ReadUntil(const BlockId& block, BlockRange range, bool in_place) {
    Cost cost;
    for (int i = 0; i < kAttempts; ++i) {
      if (!in_place) DropPages(dir_ / "cache");
      const Result<Cost> read = fakes::RunTask(ReadCounted(*store_, block, range));
      EXPECT_TRUE(read.has_value()) << read.error().message;
      if (read) cost = *read;
      if ((cost.in_place == 1) == in_place) break;
    }
    return cost;
  }

  fakes::TempDir dir_;
  TestStore store_{OneDirectory(dir_ / "cache")};
};

TEST_F(StoreHit, LocksAreCounted) {
  std::mutex mutex;
  std::shared_mutex shared;
  const std::uint64_t before = fakes::LocksTaken();
  {
    const std::scoped_lock lock(mutex);
    const std::shared_lock second(shared);
  }
  const std::unique_lock third(shared);
  EXPECT_EQ(fakes::LocksTaken(), before + 3);
}

TEST_F(StoreHit, OutOfThePageCacheTakesNoLockAndLeavesItsThreadForNobody) {
  for (const std::uint32_t length : {500U, 40'000U, 4U << 20}) {
    const BlockId block = BlockNumber(length, length);
    ASSERT_TRUE(store_.Admit(LinkNumber(1), block).has_value());
    for (const BlockRange range : {BlockRange{0, length}, BlockRange{length - 1, length}}) {
      const Cost cost = ReadUntil(block, range, true);
      EXPECT_EQ(cost.in_place, 1U) << length;
      EXPECT_EQ(cost.elsewhere, 0U) << length;
      EXPECT_EQ(cost.locks, 0U) << length;
    }
  }
  EXPECT_EQ(store_->counters().lock_waits.load(), 0U) << "nothing has moved";
  EXPECT_EQ(store_->counters().reads_not_noted.load(), 0U) << "there is no other thread";
}

TEST_F(StoreHit, APlaceIsWhereTheBytesLieAndTakesNoLock) {
  for (const std::uint32_t length : {500U, 40'000U, 4U << 20}) {
    const BlockId block = BlockNumber(length, length);
    ASSERT_TRUE(store_.Admit(LinkNumber(1), block).has_value());
    const auto right = BytesOf(block);
    const BlockRange last{length - 1, length};
    std::optional<CellPlace> place;
    std::uint64_t taken = 0;
    for (int i = 0; i < kAttempts && !place; ++i) {
      ASSERT_EQ(ReadUntil(block, last, true).in_place, 1U) << length;
      const std::uint64_t before = fakes::LocksTaken();
      place = store_->Place(block, last);
      taken = fakes::LocksTaken() - before;
    }
    ASSERT_TRUE(place.has_value()) << length;
    EXPECT_EQ(taken, 0U);
    const std::optional<SegmentHandle> file = store_->FileOf(block);
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->segment, place->segment);
    EXPECT_EQ(place->link, LinkNumber(1)) << "whose blocks it holds";
    EXPECT_EQ(file->link, LinkNumber(1));
    const BlockRange cells = EnclosingCells(last, length);
    std::vector<std::byte> bytes(cells.size());
    ASSERT_EQ(
        ::pread(*file->descriptor, bytes.data(), bytes.size(), static_cast<off_t>(place->position)),
        static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), right->data() + cells.begin));
    EXPECT_EQ(place->checksums, ChecksumsOf(bytes));
    ASSERT_TRUE(store_.Evict({block}).has_value());
    EXPECT_FALSE(store_->Place(block, last)) << "evicted";
    EXPECT_FALSE(store_->FileOf(block));
  }
  EXPECT_FALSE(store_->Place(BlockNumber(1, 500), {0, 501})) << "beyond the block";
}

TEST_F(StoreHit, WhatThePageCacheHasNotHasNoPlace) {
  if (fakes::IsInMemory(dir_.path())) GTEST_SKIP() << "this file system is in memory";
  const BlockId block = BlockNumber(1, 40'000);
  ASSERT_TRUE(store_.Admit(LinkNumber(1), block).has_value());
  ASSERT_EQ(ReadUntil(block, {0, block.length}, true).in_place, 1U);
  bool told = true;
  for (int i = 0; i < kAttempts && told; ++i) {
    DropPages(dir_ / "cache");
    told = store_->Place(block, {0, block.length}).has_value();
  }
  EXPECT_FALSE(told);
  EXPECT_TRUE(store_.Serves(block));
}

TEST_F(StoreHit, WhatThePageCacheHasNotIsReadByAThreadOfTheDisk) {
  if (fakes::IsInMemory(dir_.path())) GTEST_SKIP() << "this file system is in memory";
  const BlockId block = BlockNumber(1, 40'000);
  ASSERT_TRUE(store_.Admit(LinkNumber(1), block).has_value());
  ASSERT_EQ(ReadUntil(block, {0, block.length}, true).in_place, 1U);
  const Cost cost = ReadUntil(block, {0, block.length}, false);
  ASSERT_NE(cost.in_place, 1U);
  EXPECT_EQ(cost.elsewhere, 1U);
  EXPECT_GT(cost.locks, 0U) << "the lane's";
  EXPECT_TRUE(store_.Serves(block));
}

}  // namespace
}  // namespace forebay
