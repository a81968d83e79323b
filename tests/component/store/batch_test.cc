#include <fstream>

#include "cachenode/store/disk.h"
#include "common/base/failpoint.h"
#include "tests/component/store/store_fixture.h"

// Blocks that wait for a disk at the same time, with failpoints.
namespace forebay {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREBAY_TEST_SANITIZED
#endif
#endif

/// Calls of this thread that write. Nothing: this kernel does not count them, or a sanitizer, which
/// looks at memory by writes of its own, is among those that are counted.
std::optional<std::uint64_t> WritesOfThread() {
#ifdef FOREBAY_TEST_SANITIZED
  return std::nullopt;
#endif
  std::ifstream io("/proc/thread-self/io");
  for (std::string name; io >> name;) {
    std::uint64_t value = 0;
    io >> value;
    if (name == "syscw:") return value;
  }
  return std::nullopt;
}

class DiskBatchTest : public ::testing::Test {
 protected:
  DiskBatchTest() {
    Result<std::unique_ptr<Disk>> disk =
        Disk::Open({dir_ / "cache", 64ULL << 20}, TestCluster(), 0, parts_);
    EXPECT_TRUE(disk.has_value());
    disk_ = std::move(*disk);
    // Makes the link's segment.
    EXPECT_TRUE(disk_->Admit(Enter(BlockNumber(99, 10))).has_value());
  }
  ~DiskBatchTest() override { Failpoints::Instance().Arm(""); }

  std::shared_ptr<Arrival> Enter(const BlockId& block) {
    const auto data = BytesOf(block);
    auto arrival = std::make_shared<Arrival>(std::make_shared<const NewBlock>(
        parts_.links.Get(LinkNumber(1)), block, Slice::Of(data), ChecksumsOf(data->view())));
    disk_->arrivals().Enter(arrival);
    return arrival;
  }
  std::vector<std::shared_ptr<Arrival>> EnterSamples() {
    std::vector<std::shared_ptr<Arrival>> all;
    all.reserve(samples_.size());
    for (const BlockId& block : samples_) all.push_back(Enter(block));
    return all;
  }
  RecordReader::Outcome Read(const BlockId& block) {
    const auto found = parts_.index.Acquire(block, 1);
    if (!found) return RecordReader::Outcome::kMismatch;
    const auto file = disk_->OpenSegment(found->place.segment);
    RecordReader reader(disk_->Expect(*found, file->link->id), {0, block.length});
    const RecordReader::Outcome outcome = reader.Read(file->fd.get(), false);
    parts_.index.Release(found->handle);
    return outcome;
  }

  fakes::TempDir dir_;
  StoreParts parts_{OneDirectory("", 0, 4ULL << 20), 16};
  std::unique_ptr<Disk> disk_;
  const std::vector<BlockId> samples_ = {BlockNumber(1, 5000), BlockNumber(2, 70'000),
                                         BlockNumber(3, 4000), BlockNumber(4, 1)};
};

TEST_F(DiskBatchTest, WhatWaitsTogetherIsWrittenByOneCallAndCommittedByOne) {
  const auto all = EnterSamples();
  const std::optional<std::uint64_t> before = WritesOfThread();
  ASSERT_TRUE(disk_->Admit(all[1]).has_value());
  const std::optional<std::uint64_t> after = WritesOfThread();
  if (before && after) {
    EXPECT_EQ(*after - *before, 2U) << "the segment, and the index's log";
  }
  for (const auto& one : all) EXPECT_TRUE(disk_->Admit(one).has_value());
  EXPECT_EQ(WritesOfThread(), after) << "they are there already";
  for (const BlockId& block : samples_) EXPECT_EQ(Read(block), RecordReader::Outcome::kOk);
}

TEST_F(DiskBatchTest, AWriteThatFailsFailsAllOfItOnceAndLeavesNothing) {
  const std::uint64_t used = disk_->Usage().used_bytes;
  for (const char* point : {"store.write_io_error:1:error", "store.write_no_space:1:error"}) {
    const auto all = EnterSamples();
    Failpoints::Instance().Arm(point);
    for (const auto& one : all) EXPECT_FALSE(disk_->Admit(one).has_value()) << point;
    Failpoints::Instance().Arm("");
    for (const BlockId& block : samples_) EXPECT_FALSE(parts_.index.Find(block)) << point;
    EXPECT_EQ(disk_->Usage().used_bytes, used) << point;
  }
  EXPECT_EQ(disk_->Usage().errors.write, 1U);
  EXPECT_EQ(disk_->Usage().errors.full, 1U);
  EXPECT_EQ(disk_->state(), DiskState::kOk) << "one error is forgiven, however many wait";
}

TEST_F(DiskBatchTest, AnIndexThatRefusesTheBatchLeavesNothing) {
  const std::uint64_t used = disk_->Usage().used_bytes;
  const auto all = EnterSamples();
  Failpoints::Instance().Arm("store.index_io_error:1:error");
  for (const auto& one : all) EXPECT_FALSE(disk_->Admit(one).has_value());
  Failpoints::Instance().Arm("");
  for (const BlockId& block : samples_) EXPECT_FALSE(parts_.index.Find(block));
  EXPECT_EQ(disk_->Usage().used_bytes, used);
  EXPECT_EQ(disk_->Usage().errors.write, 1U);
}

TEST_F(DiskBatchTest, ABlockThatWasGivenUpIsLeftOutOfItsBatch) {
  const auto all = EnterSamples();
  all[2]->given_up = true;
  for (const auto& one : all) {
    EXPECT_EQ(disk_->Admit(one).has_value(), one != all[2]);
  }
  EXPECT_FALSE(parts_.index.Find(samples_[2]));
  EXPECT_EQ(Read(samples_[3]), RecordReader::Outcome::kOk);
}

TEST_F(DiskBatchTest, ABatchMayEndOneSegmentAndBeginTheNext) {
  std::vector<BlockId> blocks;
  std::vector<std::shared_ptr<Arrival>> all;
  for (std::uint64_t i = 10; i < 30; ++i) {
    blocks.push_back(BlockNumber(i, 300'000));
    all.push_back(Enter(blocks.back()));
  }
  for (const auto& one : all) EXPECT_TRUE(disk_->Admit(one).has_value());
  for (const BlockId& block : blocks) EXPECT_EQ(Read(block), RecordReader::Outcome::kOk);
  EXPECT_EQ(disk_->SegmentsOf(LinkNumber(1)).size(), 2U);
}

}  // namespace
}  // namespace forebay
