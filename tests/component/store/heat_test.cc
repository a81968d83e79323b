#include <cstdint>

#include "common/model/block_heat.h"
#include "tests/component/store/store_fixture.h"

// Which blocks a drain copies first.
namespace forebay {
namespace {

class StoreHeatTest : public ::testing::Test {
 protected:
  StoreHeatTest() {
    BlockStoreOptions options;
    options.dirs = {{.path = dir_.path() + "/disk", .capacity_bytes = 16ULL << 20}};
    options.segment_bytes = 1ULL << 20;
    options.hour = [this] { return hour_; };
    store_ = std::make_unique<TestStore>(options);
    EXPECT_TRUE(store_->open());
  }
  static BlockId BlockOf(std::uint64_t number) { return BlockNumber(number, 4096); }
  BlockHeat Heat(std::uint64_t number) { return (*store_)->HeatOf(link_, BlockOf(number)); }

  fakes::TempDir dir_;
  const Uuid link_ = LinkNumber(1);
  std::uint32_t hour_ = 500'000;
  std::unique_ptr<TestStore> store_;
};

TEST_F(StoreHeatTest, CoolsWithTheHoursSinceItsLastUse) {
  ASSERT_TRUE(store_->Admit(link_, BlockOf(1)));
  EXPECT_EQ(Heat(1), BlockHeat::kUsedThisHour);
  hour_ += 2;
  EXPECT_EQ(Heat(1), BlockHeat::kUsedToday);
  hour_ += 23;
  EXPECT_EQ(Heat(1), BlockHeat::kCold);
  EXPECT_TRUE(store_->Serves(BlockOf(1)));
  EXPECT_EQ(Heat(1), BlockHeat::kUsedThisHour);
}

TEST_F(StoreHeatTest, WhatIsNotCachedIsCold) {
  (*store_)->NoteRead(link_, BlockOf(1), "job");
  EXPECT_EQ(Heat(1), BlockHeat::kCold);
}

TEST_F(StoreHeatTest, WhatAJobWillReadIsHotterThanWhatWasJustUsed) {
  constexpr std::uint64_t kBlocks = 1000;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    (*store_)->NoteRead(link_, BlockOf(i), "job");
    ASSERT_TRUE(store_->Admit(link_, BlockOf(i)));
  }
  ASSERT_TRUE(store_->Admit(LinkNumber(2), BlockOf(kBlocks)));
  // The job goes over its data a second time.
  for (std::uint64_t i = 0; i < kBlocks / 2; ++i) {
    (*store_)->NoteRead(link_, BlockOf(i), "job");
    ASSERT_TRUE(store_->Serves(BlockOf(i)));
  }
  EXPECT_GE(Heat(kBlocks - 1), BlockHeat::kWanted);
  EXPECT_GE(Heat(0), BlockHeat::kWanted);
  EXPECT_EQ((*store_)->HeatOf(LinkNumber(2), BlockOf(kBlocks)), BlockHeat::kUsedThisHour);
}

}  // namespace
}  // namespace forebay
