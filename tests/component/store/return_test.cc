#include "common/base/failpoint.h"
#include "tests/component/store/store_fixture.h"

// How a disk that failed comes back, by failpoints and a clock in the test's hands.
namespace forebay {
namespace {

class StoreReturnTest : public ::testing::Test {
 protected:
  StoreReturnTest() {
    options_.dirs.push_back({dir_ / "b", 256ULL << 20});
    options_.segment_bytes = 1ULL << 20;
  }
  ~StoreReturnTest() override { Failpoints::Instance().Arm(""); }

  static BlockId Block(std::uint64_t number) { return BlockNumber(number, 200'000); }

  void Fill(TestStore& store) {
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
  }

  /// Lets reads fail until one disk is quarantined; answers which, and notes what was dropped.
  std::size_t Quarantine(TestStore& store) {
    Failpoints::Instance().Arm("store.read_io_error:1:error");
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_FALSE(store.Serves(Block(i)));
      ++dropped_;
      for (std::size_t disk = 0; disk < 2; ++disk) {
        if (store->Disks()[disk].state == DiskState::kQuarantined) return disk;
      }
    }
    ADD_FAILURE() << "no disk is quarantined";
    return 0;
  }

  /// Five seconds go by, and the disk is looked after.
  DiskState Later(TestStore& store, std::size_t disk) {
    now_ += std::chrono::seconds(5);
    EXPECT_TRUE(fakes::RunTask(store->Tend(disk, now_)).has_value());
    return store->Disks()[disk].state;
  }
  void ExpectBack(TestStore& store, std::size_t disk) {
    Failpoints::Instance().Arm("");
    EXPECT_NE(Later(store, disk), DiskState::kOk);
    EXPECT_NE(Later(store, disk), DiskState::kOk);
    EXPECT_EQ(Later(store, disk), DiskState::kOk) << "three clean probes";
  }

  static constexpr std::uint64_t kBlocks = 20;
  fakes::TempDir dir_;
  BlockStoreOptions options_ = OneDirectory(dir_ / "a");
  TimePoint now_ = Clock::now();
  std::uint64_t dropped_ = 0;
};

TEST_F(StoreReturnTest, QuarantinedDiskComesBackByItselfWithAllItsBlocks) {
  TestStore store(options_);
  Fill(store);
  const std::size_t disk = Quarantine(store);
  for (const char* sick : {"store.read_io_error:1:error", "store.write_io_error:1:error",
                           "store.sync_error:1:error"}) {
    Failpoints::Instance().Arm(sick);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Later(store, disk), DiskState::kQuarantined) << sick;
  }
  ExpectBack(store, disk);
  std::uint64_t served = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i) served += store.Serves(Block(i)) ? 1 : 0;
  EXPECT_EQ(served, kBlocks - dropped_) << "only what was dropped for its errors is gone";
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(store.Serves(Block(i)));
  EXPECT_FALSE(std::filesystem::exists(options_.dirs[disk].path + "/probe"));
}

TEST_F(StoreReturnTest, WhatWasFetchedAgainMeanwhileIsNotKeptTwice) {
  {
    TestStore store(options_);
    Fill(store);
    const std::size_t disk = Quarantine(store);
    Failpoints::Instance().Arm("");
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
    EXPECT_GT(store->Disks()[disk].used_bytes, 0U) << "left alone";
    EXPECT_NE(Later(store, disk), DiskState::kOk);
    ExpectBack(store, disk);
    EXPECT_EQ(store->Disks()[disk].used_bytes, 0U);
    EXPECT_TRUE(SegmentsBelow(options_.dirs[disk].path).empty());
    EXPECT_EQ(store->UsageByLink().at(LinkNumber(1)).blocks, kBlocks);
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(store.Serves(Block(i)));
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(100)).has_value());
    EXPECT_GT(store->Disks()[disk].used_bytes, 0U) << "the emptier disk takes the next";
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore again(options_);
  ASSERT_TRUE(again.open()) << again.error().message;
  EXPECT_EQ(again->BlockCount(), kBlocks + 1);
  EXPECT_EQ(again->counters().dropped_at_recovery.load(), 0U);
}

TEST_F(StoreReturnTest, SpaceThatIsEvictedMeanwhileIsFreedWhenTheDiskIsBack) {
  TestStore store(options_);
  Fill(store);
  const std::size_t disk = Quarantine(store);
  Failpoints::Instance().Arm("");
  const Result<Evicted> evicted = store.EvictLink(LinkNumber(1));
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ(evicted->blocks, kBlocks - dropped_);
  EXPECT_NE(Later(store, disk), DiskState::kOk);
  ExpectBack(store, disk);
  EXPECT_EQ(store->Disks()[0].used_bytes + store->Disks()[1].used_bytes, 0U);
}

TEST_F(StoreReturnTest, ReadOnlyDiskTakesBlocksAgainWhenItCanBeWritten) {
  TestStore store(OneDirectory(dir_ / "a"));
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(1)).has_value());
  Failpoints::Instance().Arm("store.write_read_only:1:error");
  EXPECT_FALSE(store.Admit(LinkNumber(1), Block(2)).has_value());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Later(store, 0), DiskState::kReadOnly);
  ExpectBack(store, 0);
  EXPECT_TRUE(store.Admit(LinkNumber(1), Block(2)).has_value());
  EXPECT_TRUE(store.Serves(Block(1)));
  EXPECT_TRUE(store.Serves(Block(2)));
}

TEST_F(StoreReturnTest, AnIndexWhoseWritesFailedIsOpenedAnewWithAllItsRows) {
  {
    TestStore store(OneDirectory(dir_ / "a"));
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
    Failpoints::Instance().Arm("store.index_io_error:1:error");
    for (std::uint64_t i = 100; i < 103; ++i)
      EXPECT_FALSE(store.Admit(LinkNumber(1), Block(i)).has_value());
    EXPECT_EQ(store->Disks()[0].state, DiskState::kQuarantined);
    EXPECT_NE(Later(store, 0), DiskState::kOk);
    ExpectBack(store, 0);
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(store.Serves(Block(i)));
    EXPECT_TRUE(store.Admit(LinkNumber(1), Block(100)).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore again(OneDirectory(dir_ / "a"));
  ASSERT_TRUE(again.open()) << again.error().message;
  EXPECT_EQ(again->BlockCount(), kBlocks + 1);
}

}  // namespace
}  // namespace forebay
