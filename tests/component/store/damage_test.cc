#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

/// One block of four cells and a bit, alone in its segment.
class StoreDamageTest : public ::testing::Test {
 protected:
  StoreDamageTest() : store_(Options()) {
    EXPECT_TRUE(store_.Admit(LinkNumber(1), block_).has_value());
    const auto segments = SegmentsBelow(dir_ / "cache");
    EXPECT_EQ(segments.size(), 1U);
    segment_ = segments.at(0);
  }

  void Flip(std::uint64_t position, unsigned bit) {
    std::fstream file(segment_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(position));
    const auto was = static_cast<unsigned>(file.get());
    file.seekp(static_cast<std::streamoff>(position));
    file.put(static_cast<char>(was ^ (1U << bit)));
  }

  BlockStoreOptions Options() {
    BlockStoreOptions options = OneDirectory(dir_ / "cache");
    options.on_loss = [this](const BlockId& block, BlockLoss loss) {
      lost_.push_back({block, loss});
    };
    return options;
  }
  std::uint64_t failures() { return store_->counters().checksum_failures.load(); }
  bool IsEmptySoon() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (store_->Disks()[0].used_bytes != 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return store_->Disks()[0].used_bytes == 0;
  }

  const BlockId block_ = BlockNumber(5, 4 * kCellBytes + 100);
  fakes::TempDir dir_;
  std::vector<std::pair<BlockId, BlockLoss>> lost_;
  TestStore store_;
  std::filesystem::path segment_;
};

TEST_F(StoreDamageTest, FlippedBitInTheDataIsAMissAndCounted) {
  Flip(RecordHeaderBytes(block_.length) + 2 * kCellBytes + 5, 3);
  EXPECT_TRUE(store_.ServesRange(block_, {0, 10})) << "other cells are right";
  EXPECT_TRUE(store_.ServesRange(block_, {4 * kCellBytes, block_.length}));
  EXPECT_EQ(failures(), 0U);
  EXPECT_FALSE(store_.ServesRange(block_, {2 * kCellBytes, 2 * kCellBytes + 1}));
  EXPECT_EQ(failures(), 1U);
  EXPECT_FALSE(store_->Contains(block_)) << "dropped";
  EXPECT_FALSE(store_.Serves(block_));
  EXPECT_EQ(failures(), 1U) << "counted once";
  const std::vector<std::pair<BlockId, BlockLoss>> lost = {{block_, BlockLoss::kDamaged}};
  EXPECT_EQ(lost_, lost);
  EXPECT_TRUE(IsEmptySoon()) << "its space is freed on the disk's own threads";
  EXPECT_TRUE(store_.Admit(LinkNumber(1), block_).has_value()) << "repaired by the next fill";
  EXPECT_TRUE(store_.Serves(block_));
}

TEST_F(StoreDamageTest, EveryFlippedBitOfTheHeaderIsAMiss) {
  // A link of its own whose first block stays, so that its one segment stays too.
  TestStore store(OneDirectory(dir_ / "other", 256ULL << 20, 1ULL << 40));
  ASSERT_TRUE(store.Admit(LinkNumber(2), BlockNumber(1, 10)).has_value());
  segment_ = SegmentsBelow(dir_ / "other").at(0);
  const BlockId block = BlockNumber(2, kCellBytes + 10);
  std::uint64_t position = RecordDiskBytes(10);
  for (std::uint32_t bit = 0; bit < RecordHeaderBytes(block.length) * 8; ++bit) {
    ASSERT_TRUE(store.Admit(LinkNumber(2), block).has_value());
    Flip(position + bit / 8, bit % 8);
    ASSERT_FALSE(store.ServesRange(block, {kCellBytes, kCellBytes + 1})) << "bit " << bit;
    ASSERT_EQ(store->counters().checksum_failures.load(), bit + 1);
    position += RecordDiskBytes(block.length);
  }
  ASSERT_TRUE(store.Admit(LinkNumber(2), block).has_value());
  EXPECT_TRUE(store.Serves(block));
}

TEST_F(StoreDamageTest, TruncatedSegmentIsAMiss) {
  std::filesystem::resize_file(segment_, 1000);
  EXPECT_FALSE(store_.Serves(block_));
  EXPECT_EQ(failures(), 1U);
}

TEST_F(StoreDamageTest, PunchedRecordIsAMiss) {
  const int fd = ::open(segment_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 0), 0);
  ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
  ::close(fd);
  EXPECT_FALSE(store_.Serves(block_));
  EXPECT_EQ(failures(), 1U);
}

TEST_F(StoreDamageTest, ARightRecordInAWrongPlaceIsAMiss) {
  // The record of a second block, copied bit by bit over the first one's.
  const BlockId other = BlockNumber(6, block_.length);
  ASSERT_TRUE(store_.Admit(LinkNumber(1), other).has_value());
  const std::uint64_t bytes = RecordDiskBytes(block_.length);
  std::string record(bytes, '\0');
  std::fstream file(segment_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(bytes));
  file.read(record.data(), RecordHeaderBytes(block_.length) + block_.length);
  file.clear();
  file.seekp(0);
  file.write(record.data(), static_cast<std::streamsize>(bytes));
  file.close();
  EXPECT_FALSE(store_.Serves(block_));
  EXPECT_TRUE(store_.Serves(other));
  EXPECT_EQ(failures(), 1U);
}

TEST_F(StoreDamageTest, ARebuildBelievesNoRecordOfACopiedSegment) {
  ASSERT_TRUE(store_->Close(Patience()).has_value());
  std::filesystem::copy_file(segment_, segment_.parent_path() / "0000000077.seg");
  std::filesystem::remove(segment_);
  std::filesystem::remove_all(dir_ / "cache/index");
  fakes::TempDir unused;
  // The lock is the closed store's until it ends, so the files move to another directory.
  std::filesystem::copy(dir_ / "cache", unused / "cache", std::filesystem::copy_options::recursive);
  TestStore again(OneDirectory(unused / "cache"));
  ASSERT_TRUE(again.open()) << again.error().message;
  EXPECT_EQ(again->BlockCount(), 0U);
}

TEST_F(StoreDamageTest, ObjectThatContainsARecordIsNeverTakenForOne) {
  // An object whose bytes are a record of this very segment, at the place where it will lie, as
  // somebody could write it who knows all but the directory's uuid.
  const BlockId victim = BlockNumber(9, 1000);
  const auto data = BytesOf(victim);
  const std::uint64_t begin = RecordDiskBytes(block_.length);
  const BlockId carrier = BlockNumber(10, 40'000);
  const RecordHeader forged{.cluster = TestCluster(),
                            .link = LinkNumber(1),
                            .block = victim,
                            .segment = 0,
                            .position = begin + kRecordAlignment,
                            .checksums = ChecksumsOf(data->view())};
  const std::vector<std::byte> header = EncodeRecordHeader(forged, RecordSeed(Uuid()));
  auto bytes = std::make_shared<Buffer>(carrier.length);
  std::memset(bytes->data(), 0, bytes->size());
  const std::size_t at = kRecordAlignment - RecordHeaderBytes(carrier.length);
  std::copy(header.begin(), header.end(), bytes->data() + at);
  std::memcpy(bytes->data() + at + header.size(), data->data(), data->size());
  ASSERT_TRUE(fakes::RunTask(store_->Admit(LinkNumber(1), carrier, Slice::Of(bytes),
                                           ChecksumsOf(bytes->view()), "", Room::kMayEvict))
                  .has_value());
  ASSERT_TRUE(store_->Close(Patience()).has_value());
  // The carrier's own header is broken, so that a rebuild looks inside it.
  Flip(begin, 0);
  fakes::TempDir moved;
  std::filesystem::copy(dir_ / "cache", moved / "cache", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(moved / "cache/index");
  TestStore again(OneDirectory(moved / "cache"));
  ASSERT_TRUE(again.open()) << again.error().message;
  EXPECT_FALSE(again->Contains(victim));
  EXPECT_TRUE(again.Serves(block_));
}

}  // namespace
}  // namespace forebay
