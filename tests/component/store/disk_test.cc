#include "cachenode/store/disk.h"

#include <fcntl.h>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

/// One disk with one block, and the steps of its readers and its removal in the test's hands.
class DiskTest : public ::testing::Test {
 protected:
  DiskTest() {
    Result<std::unique_ptr<Disk>> disk =
        Disk::Open({dir_ / "cache", 64ULL << 20}, TestCluster(), 0, parts_);
    EXPECT_TRUE(disk.has_value());
    disk_ = std::move(*disk);
    Admit(block_);
    Admit(other_);  // so that the segment stays when the first block leaves it
  }

  static BlockStoreOptions Options() {
    BlockStoreOptions options = OneDirectory("", 0, 4ULL << 20);
    options.hour = [] { return Hour{1}; };
    return options;
  }

  void Admit(const BlockId& block) {
    const auto data = BytesOf(block);
    const auto arrival = std::make_shared<Arrival>(std::make_shared<const NewBlock>(
        parts_.links.Get(LinkNumber(1)), block, Slice::Of(data), ChecksumsOf(data->view())));
    disk_->arrivals().Enter(arrival);
    ASSERT_TRUE(disk_->Admit(arrival).has_value());
  }

  RecordReader::Outcome Read(const BlockIndex::Found& found) {
    const auto file = disk_->OpenSegment(found.place.segment);
    RecordReader reader(disk_->Expect(found, file->link->id), {0, found.block.length});
    return reader.Read(file->fd.get(), false);
  }

  fakes::TempDir dir_;
  StoreParts parts_{Options(), 16};
  std::unique_ptr<Disk> disk_;
  const BlockId block_ = BlockNumber(1, 300'000);
  const BlockId other_ = BlockNumber(2, 10);
};

TEST_F(DiskTest, SpaceOfABlockIsFreedByItsLastReaderAndNotBefore) {
  const std::uint64_t used = disk_->Usage().used_bytes;
  const auto first = parts_.index.Acquire(block_, 1);
  const auto second = parts_.index.Acquire(block_, 1);
  const auto leaving = parts_.index.BeginRemove(block_);
  ASSERT_TRUE(first && second && leaving);
  const Result<Disk::Removal> removal = disk_->Remove({*leaving}, BlockLoss::kAsked);
  ASSERT_TRUE(removal.has_value());
  ASSERT_EQ(removal->waiting, (std::vector<BlockPlace>{first->place}));
  EXPECT_FALSE(parts_.index.Find(block_)) << "nobody finds it any more";
  EXPECT_EQ(Read(*first), RecordReader::Outcome::kOk) << "but who reads it goes on";
  EXPECT_EQ(disk_->Usage().used_bytes, used);

  EXPECT_FALSE(parts_.index.Release(first->handle));
  disk_->FreeReleased();
  EXPECT_FALSE(disk_->IsFreed(first->place));
  EXPECT_EQ(Read(*second), RecordReader::Outcome::kOk);

  ASSERT_TRUE(parts_.index.Release(second->handle));
  disk_->Release(second->place, block_.length);
  disk_->FreeReleased();
  EXPECT_TRUE(disk_->IsFreed(first->place));
  EXPECT_EQ(disk_->Usage().used_bytes, used - RecordDiskBytes(block_.length));
  EXPECT_EQ(Read(*second), RecordReader::Outcome::kMismatch) << "the space was given back";
}

TEST_F(DiskTest, BlockThatComesBackWhileItsOldRecordIsReadIsAnother) {
  const auto reader = parts_.index.Acquire(block_, 1);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(disk_->Remove({*parts_.index.BeginRemove(block_)}, BlockLoss::kAsked).has_value());
  Admit(block_);
  const auto again = parts_.index.Acquire(block_, 1);
  ASSERT_TRUE(again);
  EXPECT_NE(again->place, reader->place) << "freed space is never used again";
  ASSERT_TRUE(parts_.index.Release(reader->handle));
  disk_->Release(reader->place, block_.length);
  disk_->FreeReleased();
  EXPECT_EQ(Read(*again), RecordReader::Outcome::kOk);
  EXPECT_FALSE(parts_.index.Release(again->handle));
}

}  // namespace
}  // namespace forebay
