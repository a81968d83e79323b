#include "coordinator/read_throughs.h"

#include <gtest/gtest.h>

#include <chrono>

#include "common/wire/messages.h"
#include "coordinator/background_fills.h"

namespace forebay {
namespace {

constexpr std::uint64_t kLinkBlocks = 1'000'000;

class ReadThroughsTest : public ::testing::Test {
 protected:
  bool Read(std::uint64_t from, std::uint64_t to, std::uint64_t link_blocks = kLinkBlocks) {
    proto::MountJob row;
    row.set_link_blocks(link_blocks);
    for (std::uint64_t block = from; block < to; ++block) row.add_read_blocks(block);
    return reads_.Add(key_, row, now_);
  }

  ReadThroughs reads_;
  JobKey key_{.job = "train", .link = Uuid::Random()};
  TimePoint now_ = Clock::now();
};

TEST_F(ReadThroughsTest, AThousandDistinctBlocksAreEnough) {
  EXPECT_FALSE(Read(0, 600));
  EXPECT_FALSE(Read(0, 600)) << "another mount reads the same";
  EXPECT_FALSE(Read(600, 999));
  EXPECT_TRUE(Read(999, 1000));
}

TEST_F(ReadThroughsTest, APercentOfASmallerLinkIsEnough) {
  EXPECT_FALSE(Read(0, 99, 10'000));
  EXPECT_TRUE(Read(99, 100, 10'000));
}

TEST_F(ReadThroughsTest, OnlyWithinAMinute) {
  for (std::uint64_t second = 0; second < 600; second += 5) {
    EXPECT_FALSE(Read(second * 15, (second + 5) * 15)) << "15 a second are 900 in a minute";
    now_ += std::chrono::seconds(5);
  }
  now_ += std::chrono::minutes(2);
  EXPECT_FALSE(Read(100'000, 100'999));
  EXPECT_TRUE(Read(100'999, 101'000));
}

TEST_F(ReadThroughsTest, ALinkOfUnknownSizeIsNeverReadThroughAndMemoryIsBounded) {
  EXPECT_FALSE(Read(0, 1000, 0));
  EXPECT_EQ(reads_.jobs(), 0u);
  for (int i = 0; i < 10'000; ++i) {
    key_.job = std::to_string(i);
    Read(0, 1);
  }
  EXPECT_LE(reads_.jobs(), kMaxJobsShown);
  now_ += std::chrono::minutes(2);
  reads_.Tidy(now_);
  EXPECT_EQ(reads_.jobs(), 0u);
}

TEST_F(ReadThroughsTest, TheBlocksOfAllJobsAreBounded) {
  for (int i = 0; i < 1200; ++i) {
    key_.job = std::to_string(i);
    EXPECT_FALSE(Read(0, 999, 1'000'000));
  }
  EXPECT_EQ(reads_.blocks(), ReadThroughs::kMaxBlocks);
  key_.job = "0";
  reads_.Forget(key_);
  EXPECT_EQ(reads_.blocks(), ReadThroughs::kMaxBlocks - 999);
  now_ += std::chrono::minutes(2);
  reads_.Tidy(now_);
  EXPECT_EQ(reads_.blocks(), 0u);
}

proto::TaskState Fill(const JobKey& key, TaskPhase phase, std::uint64_t generation) {
  proto::TaskState task;
  task.set_link_id(BytesOf(key.link));
  task.add_jobs(key.job);
  task.set_state(static_cast<std::uint32_t>(phase));
  task.set_generation(generation);
  return task;
}

TEST(FillChance, FollowsFromTheFillsThatThereWere) {
  const JobKey mine{.job = "mine", .link = Uuid::Random()};
  const JobKey other{.job = "other", .link = mine.link};
  const JobKey elsewhere{.job = "mine", .link = Uuid::Random()};
  EXPECT_EQ(ChanceOf({}, mine, 3), FillChance::kMayBegin);
  EXPECT_EQ(ChanceOf({Fill(mine, TaskPhase::kRunning, 3)}, mine, 3), FillChance::kDecided);
  EXPECT_EQ(ChanceOf({Fill(other, TaskPhase::kRunning, 3)}, mine, 3), FillChance::kMayJoin);
  EXPECT_EQ(ChanceOf({Fill(elsewhere, TaskPhase::kRunning, 3)}, mine, 3), FillChance::kMayBegin);
  for (const TaskPhase ended : {TaskPhase::kDone, TaskPhase::kFailed}) {
    EXPECT_EQ(ChanceOf({Fill(mine, ended, 3)}, mine, 3), FillChance::kDecided);
    EXPECT_EQ(ChanceOf({Fill(mine, ended, 2)}, mine, 3), FillChance::kMayBegin)
        << "the link has another generation";
    EXPECT_EQ(ChanceOf({Fill(other, ended, 3)}, mine, 3), FillChance::kMayBegin);
  }
  EXPECT_EQ(ChanceOf({Fill(mine, TaskPhase::kCancelled, 2)}, mine, 3), FillChance::kDecided);
  EXPECT_EQ(ChanceOf({Fill(mine, TaskPhase::kCancelled, 2), Fill(other, TaskPhase::kRunning, 3)},
                     mine, 3),
            FillChance::kDecided);
  proto::TaskState left = Fill(mine, TaskPhase::kDone, 3);
  left.set_job_left(true);
  EXPECT_EQ(ChanceOf({left}, mine, 3), FillChance::kMayBegin);
}

}  // namespace
}  // namespace forebay
