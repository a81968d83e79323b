#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "tests/component/store/store_fixture.h"

// A disk gets another size while it serves.
namespace forebay {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kLength = 1 << 20;
constexpr std::uint64_t kLarge = 64ULL << 20;
constexpr std::uint64_t kSmall = 24ULL << 20;

class StoreResizeTest : public ::testing::Test {
 protected:
  void Fill(TestStore& store, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value()) << i;
  }
  static Status Resize(TestStore& store, std::uint64_t bytes) {
    return fakes::RunTask(store->Resize(0, bytes));
  }
  static Evicted Shrink(TestStore& store, std::size_t blocks) {
    const Result<Evicted> gone = fakes::RunTask(store->Shrink(0, blocks));
    EXPECT_TRUE(gone.has_value()) << gone.error().message;
    return gone.value_or(Evicted());
  }
  /// In steps of `blocks`; answers how many it took until a step found nothing to do.
  static int ShrinkAll(TestStore& store, std::size_t blocks) {
    int steps = 0;
    while (steps < 1000 && Shrink(store, blocks).blocks > 0) ++steps;
    return steps;
  }
  std::uint64_t OnDisk() const {
    std::uint64_t bytes = 0;
    for (const auto& file : SegmentsBelow(dir_ / "cache")) {
      struct stat status{};
      EXPECT_EQ(::stat(file.c_str(), &status), 0);
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
  }

  fakes::TempDir dir_;
};

TEST_F(StoreResizeTest, ASmallerSizeIsReachedStepByStepWhileItServes) {
  std::uint64_t held = 0;
  {
    TestStore store(OneDirectory(dir_ / "cache", kLarge));
    Fill(store, 0, 40);
    ASSERT_TRUE(Resize(store, kSmall).has_value());
    EXPECT_EQ(store->Disks()[0].capacity_bytes, kLarge) << "as long as it holds more";
    EXPECT_EQ(Shrink(store, 3).blocks, 3U) << "no more than it was told";
    EXPECT_FALSE(store.Serves(BlockNumber(0, kLength))) << "the oldest first";
    EXPECT_TRUE(store.Serves(BlockNumber(39, kLength)));
    EXPECT_GE(ShrinkAll(store, 3), 3);
    EXPECT_EQ(store->Disks()[0].capacity_bytes, kSmall);
    EXPECT_LE(store->Disks()[0].used_bytes, kSmall);
    EXPECT_LE(OnDisk(), kSmall);
    EXPECT_GE(store->BlockCount(), 10U) << "and not much more than it had to";
    EXPECT_TRUE(store.Serves(BlockNumber(39, kLength)));
    EXPECT_EQ(store->counters().evicted_blocks.load(), 40 - store->BlockCount());
    held = store->BlockCount();
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  // It keeps to that also when it is opened again.
  TestStore again(OneDirectory(dir_ / "cache", kSmall));
  ASSERT_TRUE(again.open()) << again.error().message;
  EXPECT_EQ(again->BlockCount(), held);
}

TEST_F(StoreResizeTest, NothingIsTakenBeyondTheNewSizeWhileItShrinks) {
  TestStore store(OneDirectory(dir_ / "cache", kLarge));
  Fill(store, 0, 40);
  ASSERT_TRUE(Resize(store, kSmall).has_value());
  const std::uint64_t used = store->Disks()[0].used_bytes;
  EXPECT_FALSE(store->HasFreeRoom(LinkNumber(1), kLength));
  (void)store.Admit(LinkNumber(1), BlockNumber(100, kLength));
  EXPECT_LE(store->Disks()[0].used_bytes, used);
}

TEST_F(StoreResizeTest, ANewcomerTakesNothingOfLesserLinksWhileItShrinks) {
  TestStore store(OneDirectory(dir_ / "cache", kLarge));
  store->SetRules({{.link = LinkNumber(1), .priority = LinkPriority::kLow}});
  Fill(store, 0, 40);
  ASSERT_TRUE(Resize(store, kSmall).has_value());
  EXPECT_FALSE(store.Admit(LinkNumber(2), BlockNumber(100, kLength)).has_value());
  EXPECT_EQ(store->BlockCount(), 40U) << "what is too much leaves at its own pace";
  ShrinkAll(store, 100);
  EXPECT_TRUE(store.Admit(LinkNumber(2), BlockNumber(100, kLength)).has_value());
}

TEST_F(StoreResizeTest, ALargerSizeHoldsAtOnce) {
  TestStore store(OneDirectory(dir_ / "cache", kSmall));
  Fill(store, 0, 10);
  ASSERT_TRUE(Resize(store, kLarge).has_value());
  EXPECT_EQ(store->Disks()[0].capacity_bytes, kLarge);
  Fill(store, 10, 45);
  EXPECT_EQ(store->BlockCount(), 45U) << "nothing had to go";
  EXPECT_EQ(Shrink(store, 100).blocks, 0U);
}

TEST_F(StoreResizeTest, WhoChangesTheirMindKeepsWhatIsStillThere) {
  TestStore store(OneDirectory(dir_ / "cache", kLarge));
  Fill(store, 0, 40);
  ASSERT_TRUE(Resize(store, kSmall).has_value());
  EXPECT_EQ(Shrink(store, 2).blocks, 2U);
  ASSERT_TRUE(Resize(store, kLarge).has_value());
  EXPECT_EQ(Shrink(store, 100).blocks, 0U);
  EXPECT_EQ(store->BlockCount(), 38U);
  EXPECT_EQ(store->Disks()[0].capacity_bytes, kLarge);
}

TEST_F(StoreResizeTest, WhatIsPinnedDoesNotGoAndTooSmallASizeIsRefused) {
  TestStore store(OneDirectory(dir_ / "cache", kLarge));
  Fill(store, 0, 40);
  std::vector<BlockId> pinned;
  for (std::uint64_t i = 0; i < 15; ++i) pinned.push_back(BlockNumber(i, kLength));
  ASSERT_TRUE(store.TakePins(LinkNumber(1), 1, pinned).has_value());
  const Status refused = Resize(store, 12ULL << 20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("unpin some"));
  EXPECT_EQ(store->Disks()[0].capacity_bytes, kLarge);
  EXPECT_EQ(Shrink(store, 100).blocks, 0U) << "nothing is changed";
  ASSERT_TRUE(Resize(store, kSmall).has_value());
  ShrinkAll(store, 100);
  EXPECT_EQ(store->Disks()[0].capacity_bytes, kSmall);
  for (const BlockId& block : pinned) EXPECT_TRUE(store.Serves(block));
  EXPECT_FALSE(store.Serves(BlockNumber(20, kLength))) << "younger, and not pinned";
}

TEST_F(StoreResizeTest, ASizeThatCannotBeIsRefusedAndChangesNothing) {
  TestStore store(OneDirectory(dir_ / "cache", kLarge));
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{1} << 60}) {
    const Status refused = Resize(store, bytes);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr(dir_ / "cache"));
  }
  EXPECT_EQ(store->Disks()[0].capacity_bytes, kLarge);
}

}  // namespace
}  // namespace forebay
