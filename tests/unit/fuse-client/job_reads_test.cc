#include "fuse-client/job_reads.h"

#include <gtest/gtest.h>

#include <chrono>

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class JobReadsTest : public ::testing::Test {
 protected:
  explicit JobReadsTest(std::uint64_t blocks = 100)
      : job_("4711", Uuid::Random(), LinkFacts{.name = "data", .generation = 3, .blocks = blocks},
             1, begin_) {}

  static BlockId Block(std::uint64_t number) {
    return BlockId{.version = {.high = 1, .low = number * 0x9E3779B97F4A7C15ULL}, .length = 4096};
  }
  void ReadOnce(TimePoint from, Duration took, Tier tier, Duration detour = {},
                bool failed = false) {
    ASSERT_TRUE(job_.Begin(from));
    ReadOutcome outcome{.slowest = tier, .detour = detour, .failed = failed};
    outcome.bytes[static_cast<std::size_t>(tier)] = 10;
    job_.End(from, from + took, outcome);
  }
  Duration Waited(Tier tier) const {
    return job_.Look().totals.waited[static_cast<std::size_t>(tier)];
  }

  const TimePoint begin_ = Clock::now();
  JobReads job_;
};

TEST_F(JobReadsTest, AWaitIsWrittenDownToWhatWasWaitedFor) {
  ReadOnce(begin_, milliseconds(1), Tier::kLocal);
  ReadOnce(begin_, milliseconds(20), Tier::kPeer);
  ReadOnce(begin_, milliseconds(300), Tier::kS3);
  ReadOnce(begin_, milliseconds(3100), Tier::kPeer, seconds(3));
  ReadOnce(begin_, seconds(7), Tier::kLocal, {}, true);
  EXPECT_EQ(Waited(Tier::kLocal), milliseconds(1));
  EXPECT_EQ(Waited(Tier::kPeer), milliseconds(120));
  EXPECT_EQ(Waited(Tier::kS3), milliseconds(300));
  const JobTotals totals = job_.Look().totals;
  EXPECT_EQ(totals.detour, seconds(10)) << "a failed read waited in vain";
  EXPECT_EQ(totals.Stalled(), milliseconds(10'300));
  EXPECT_EQ(totals.AllWaits(), milliseconds(10'421));
  EXPECT_EQ(totals.reads, 5u);
  EXPECT_EQ(totals.failed_reads, 1u);
}

TEST_F(JobReadsTest, ReadsAtTheSameMomentAreBusyOnce) {
  ASSERT_TRUE(job_.Begin(begin_));
  ASSERT_TRUE(job_.Begin(begin_ + seconds(1)));
  job_.End(begin_, begin_ + seconds(2), ReadOutcome());
  job_.End(begin_ + seconds(1), begin_ + seconds(4), ReadOutcome());
  EXPECT_EQ(job_.Look().totals.busy, seconds(4));
  EXPECT_EQ(job_.Look().totals.AllWaits(), seconds(5));
}

TEST_F(JobReadsTest, ReadsOfOneBlockThatComeTogetherAreOneTouch) {
  for (int i = 0; i < 16; ++i) job_.Touch(Block(7));
  job_.Touch(Block(8));
  job_.Touch(Block(7));
  EXPECT_EQ(job_.Unconfirmed().places.size(), 2u);
  for (std::uint64_t i = 10; i < 40; ++i) job_.Touch(Block(i));
  job_.Touch(Block(7));
  EXPECT_EQ(job_.Unconfirmed().places.size(), 33u) << "a third of the link later it is another";
}

TEST_F(JobReadsTest, TouchesStayUntilTheyAreConfirmed) {
  for (std::uint64_t i = 0; i < 10; ++i) job_.Touch(Block(i));
  const std::deque<std::uint32_t> all = job_.Unconfirmed().places;
  ASSERT_EQ(all.size(), 10u);
  job_.Confirm(4, 2, 0.5);
  const JobReads::Touches rest = job_.Unconfirmed();
  EXPECT_EQ(rest.from, 4u);
  EXPECT_EQ(rest.places, std::deque<std::uint32_t>(all.begin() + 4, all.end()));
  job_.Confirm(4, 2, 0.5);
  EXPECT_EQ(job_.Unconfirmed().places.size(), 6u) << "the same confirmation twice";
  EXPECT_EQ(job_.Look().epoch, 2u);
  EXPECT_EQ(job_.Look().progress, 0.5);
}

class LargeLinkTest : public JobReadsTest {
 protected:
  LargeLinkTest() : JobReadsTest(8192) {}
};

TEST_F(LargeLinkTest, WithoutACoordinatorTheOldestTouchesAreLost) {
  for (std::uint64_t i = 0; i < 8192; ++i) job_.Touch(Block(i));
  const JobReads::Touches touches = job_.Unconfirmed();
  EXPECT_EQ(touches.places.size(), JobReads::kMaxTouches);
  EXPECT_GT(touches.from, 0u);
}

TEST_F(JobReadsTest, EndsWhenItsProcessesHaveBeenGoneForAMinute) {
  job_.AddProcess(1 << 30, 5);  // above the kernel's largest number
  ReadOnce(begin_, milliseconds(1), Tier::kLocal);
  EXPECT_FALSE(job_.EndIfIdle(begin_ + minutes(5))) << "nobody has looked for its processes";
  EXPECT_EQ(job_.CountProcesses(ProcessFiles()), 0u);
  EXPECT_FALSE(job_.EndIfIdle(begin_ + JobReads::kGoneFor));
  EXPECT_TRUE(job_.EndIfIdle(begin_ + JobReads::kGoneFor + milliseconds(1)));
  EXPECT_FALSE(job_.Begin(begin_ + minutes(6)));
}

TEST_F(JobReadsTest, EndsAfterTenMinutesWithoutARead) {
  ReadOnce(begin_, milliseconds(1), Tier::kLocal);
  EXPECT_FALSE(job_.EndIfIdle(begin_ + minutes(10)));
  EXPECT_TRUE(job_.EndIfIdle(begin_ + minutes(10) + milliseconds(1)));
  EXPECT_TRUE(job_.Look().ended);
}

TEST_F(JobReadsTest, DoesNotEndWhileAReadIsUnderWay) {
  ASSERT_TRUE(job_.Begin(begin_));
  EXPECT_FALSE(job_.EndIfIdle(begin_ + minutes(60)));
  EXPECT_FALSE(job_.EndUnlessReading());
  job_.End(begin_, begin_ + minutes(60), ReadOutcome());
  EXPECT_TRUE(job_.EndUnlessReading());
}

}  // namespace
}  // namespace forebay
