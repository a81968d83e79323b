#include "common/base/failpoint.h"
#include "tests/component/store/store_fixture.h"

// A disk that fails, by failpoints: this program is built with them.
namespace forebay {
namespace {

class StoreFaultsTest : public ::testing::Test {
 protected:
  StoreFaultsTest() {
    options_.dirs.push_back({dir_ / "b", 256ULL << 20});
    options_.segment_bytes = 1ULL << 20;
  }
  ~StoreFaultsTest() override { Failpoints::Instance().Arm(""); }

  static BlockId Sample(std::uint64_t number) { return BlockNumber(number, 200'000); }

  fakes::TempDir dir_;
  BlockStoreOptions options_ = OneDirectory(dir_ / "a");
};

TEST_F(StoreFaultsTest, ThreeWriteErrorsQuarantineADiskAndTheOtherTakesOver) {
  TestStore store(options_);
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(1), Sample(i)).has_value());
  }
  Failpoints::Instance().Arm("store.write_io_error:1:error");
  // Each admission tries both disks: after two of them one or both have had enough.
  const Status failed = store.Admit(LinkNumber(1), Sample(100));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::kInternal);
  EXPECT_FALSE(store.Admit(LinkNumber(1), Sample(101)).has_value());
  EXPECT_EQ(store->counters().write_errors.load(), 4U);
  EXPECT_EQ(store->Disks()[0].state, DiskState::kOk) << "two errors are forgiven";
  EXPECT_FALSE(store.Admit(LinkNumber(1), Sample(102)).has_value());
  EXPECT_EQ(store->Disks()[0].state, DiskState::kQuarantined);
  EXPECT_EQ(store->Disks()[1].state, DiskState::kQuarantined);
  Failpoints::Instance().Arm("");
  const Status none = store.Admit(LinkNumber(1), Sample(103));
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kInternal);
  EXPECT_FALSE(store.Serves(Sample(0))) << "its blocks are misses, not errors";
  EXPECT_FALSE(store->Contains(Sample(0)));
}

TEST_F(StoreFaultsTest, BlockOnAQuarantinedDiskIsKeptElsewhere) {
  TestStore store(options_);
  const BlockId block = Sample(1);
  ASSERT_TRUE(store.Admit(LinkNumber(1), block).has_value());
  Failpoints::Instance().Arm("store.read_io_error:1:error");
  EXPECT_FALSE(store.Serves(block)) << "dropped, to be fetched again";
  Failpoints::Instance().Arm("");
  EXPECT_EQ(store->counters().read_errors.load(), 1U);
  for (std::uint64_t i = 10; i < 12; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(1), Sample(i)).has_value());
  }
  // One of these lies on the first disk; two more errors there take it out.
  ASSERT_TRUE(store.Admit(LinkNumber(1), block).has_value());
  EXPECT_TRUE(store.Serves(block));
}

TEST_F(StoreFaultsTest, QuarantinedDisksBlocksAreAdmittedAgainOnTheOther) {
  TestStore store(options_);
  std::vector<BlockId> blocks;
  for (std::uint64_t i = 0; i < 20; ++i) {
    blocks.push_back(Sample(i));
    ASSERT_TRUE(store.Admit(LinkNumber(1), blocks.back()).has_value());
  }
  // Reads fail until one disk has had three errors. The disks take turns, so both get two at most
  // before one gets its third.
  Failpoints::Instance().Arm("store.read_io_error:1:error");
  std::size_t tried = 0;
  while (store->Disks()[0].state == DiskState::kOk && store->Disks()[1].state == DiskState::kOk) {
    ASSERT_LT(tried, 5U);
    EXPECT_FALSE(store.Serves(blocks[tried++]));
  }
  Failpoints::Instance().Arm("");
  const std::uint64_t before = store->BlockCount();
  std::uint64_t missing = 0;
  for (const BlockId& block : blocks) missing += store.Serves(block) ? 0 : 1;
  EXPECT_GT(missing, tried);
  for (const BlockId& block : blocks) ASSERT_TRUE(store.Admit(LinkNumber(1), block).has_value());
  for (const BlockId& block : blocks) EXPECT_TRUE(store.Serves(block));
  EXPECT_GE(store->BlockCount(), before);
  EXPECT_EQ(store->UsageByLink().at(LinkNumber(1)).blocks, blocks.size());
}

TEST_F(StoreFaultsTest, ReadOnlyDiskServesAndTakesNoMore) {
  TestStore store(OneDirectory(dir_ / "a"));
  ASSERT_TRUE(store.Admit(LinkNumber(1), Sample(1)).has_value());
  Failpoints::Instance().Arm("store.write_read_only:1:error");
  EXPECT_EQ(store.Admit(LinkNumber(1), Sample(2)).error().code, Code::kInternal);
  EXPECT_EQ(store->Disks()[0].state, DiskState::kReadOnly);
  EXPECT_TRUE(store.Serves(Sample(1)));
  EXPECT_FALSE(store.Serves(Sample(2)));
}

TEST_F(StoreFaultsTest, NoSpaceIsServedWithoutBeingKept) {
  TestStore store(OneDirectory(dir_ / "a"));
  ASSERT_TRUE(store.Admit(LinkNumber(1), Sample(1)).has_value());
  const std::uint64_t used = store->Disks()[0].used_bytes;
  Failpoints::Instance().Arm("store.write_no_space:1:error");
  EXPECT_EQ(store.Admit(LinkNumber(1), Sample(2)).error().code, Code::kOverloaded);
  EXPECT_EQ(store->Disks()[0].state, DiskState::kOk);
  EXPECT_EQ(store->Disks()[0].used_bytes, used) << "what was not written takes no space";
  EXPECT_EQ(store->counters().write_errors.load(), 0U);
  EXPECT_EQ(store->counters().refused_blocks.load(), 1U);
  EXPECT_TRUE(store.Serves(Sample(1)));
}

TEST_F(StoreFaultsTest, FailedSyncIsNeverASuccess) {
  TestStore store(OneDirectory(dir_ / "a"));
  ASSERT_TRUE(store.Admit(LinkNumber(1), Sample(1)).has_value());
  Failpoints::Instance().Arm("store.sync_error:1:error");
  const Status closed = store->Close(Patience());
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().code, Code::kInternal);
  EXPECT_GT(store->counters().write_errors.load(), 0U);
}

}  // namespace
}  // namespace forebay
