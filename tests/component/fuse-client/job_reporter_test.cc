#include "fuse-client/job_reporter.h"

#include <gtest/gtest.h>

#include <chrono>

#include "common/wire/messages.h"
#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_coordinator.h"

namespace forebay {
namespace {

using fakes::FakeCoordinator;

class JobReporterTest : public ClientFixture {
 protected:
  JobReporterTest() {
    table_.SetLink(link_, LinkFacts{.name = "data", .generation = 3, .blocks = 100});
  }

  ~JobReporterTest() override { StopThread(); }

  /// One read of block `number`, which takes `took`.
  void Read(const std::string& id, std::uint64_t number, Duration took, Tier tier) {
    const std::shared_ptr<JobReads> job = table_.Open(id, link_);
    const TimePoint now = Clock::now();
    ASSERT_TRUE(job->Begin(now));
    job->Touch(BlockId{.version = {.high = 1, .low = (number + 1) * 0x9E3779B97F4A7C15ULL}});
    ReadOutcome outcome{.slowest = tier};
    outcome.bytes[static_cast<std::size_t>(tier)] = 10;
    job->End(now, now + took, outcome);
  }
  Status Report() { return Run(reporter_.ReportOnce(Deadline::After(std::chrono::seconds(10)))); }
  proto::ReportJobsRequest Last() const { return coordinator_.job_reports().back(); }

  FakeCoordinator coordinator_{kTestSecret};
  Uuid link_ = Uuid::Random();
  JobTable table_{"own"};
  NodePace pace_;
  JobReporter reporter_{threads_.At(0), *pool_, table_, pace_, {coordinator_.address()}};
};

TEST_F(JobReporterTest, TellsWhatEachJobReadAndWaitedFor) {
  Read("a", 1, std::chrono::milliseconds(5), Tier::kS3);
  Read("a", 2, std::chrono::milliseconds(1), Tier::kPeer);
  Read("b", 3, std::chrono::milliseconds(1), Tier::kLocal);
  table_.answers().Count("n1", std::chrono::microseconds(70));
  ASSERT_TRUE(Report().has_value());
  const proto::ReportJobsRequest report = Last();
  ASSERT_EQ(report.jobs_size(), 2);
  const proto::MountJob& job = report.jobs(0);
  EXPECT_EQ(job.job(), "a");
  EXPECT_EQ(job.link(), BytesOf(link_));
  EXPECT_EQ(job.generation(), 3u);
  EXPECT_EQ(job.link_blocks(), 100u);
  EXPECT_EQ(job.waits().reads(), 2u);
  EXPECT_EQ(job.waits().s3_us(), 5000u);
  EXPECT_EQ(job.waits().peer_us(), 1000u);
  EXPECT_EQ(job.waits().s3_bytes(), 10u);
  EXPECT_EQ(job.touched_size(), 2);
  EXPECT_FALSE(job.ended());
  ASSERT_EQ(report.nodes_size(), 1);
  EXPECT_EQ(report.nodes(0).wait_us(), 70u);
  EXPECT_EQ(table_.Open("a", link_)->Look().epoch, 5u) << "as the coordinator said";
}

TEST_F(JobReporterTest, SaysNothingWhenNothingIsNew) {
  Read("a", 1, std::chrono::milliseconds(1), Tier::kS3);
  ASSERT_TRUE(Report().has_value());
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(coordinator_.job_reports().size(), 1u);
  Read("b", 1, std::chrono::milliseconds(1), Tier::kS3);
  ASSERT_TRUE(Report().has_value());
  ASSERT_EQ(Last().jobs_size(), 1);
  EXPECT_EQ(Last().jobs(0).job(), "b");
}

TEST_F(JobReporterTest, ALostReplyCostsNothing) {
  Read("a", 1, std::chrono::milliseconds(1), Tier::kS3);
  table_.answers().Count("n1", std::chrono::microseconds(70));
  coordinator_.LoseJobReplies(1);
  EXPECT_FALSE(Report().has_value());
  Read("a", 2, std::chrono::milliseconds(1), Tier::kS3);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().incarnation(), coordinator_.job_reports().front().incarnation());
  EXPECT_EQ(Last().jobs(0).waits().reads(), 2u);
  EXPECT_EQ(Last().jobs(0).touched_size(), 2);
  EXPECT_EQ(Last().jobs(0).touched_from(), 0u);
  EXPECT_EQ(Last().nodes_size(), 1);
  Read("a", 3, std::chrono::milliseconds(1), Tier::kS3);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).touched_size(), 1) << "what was confirmed is not sent again";
  EXPECT_EQ(Last().jobs(0).touched_from(), 2u);
}

TEST_F(JobReporterTest, TellsWhichBlocksWereReadAsLongAsTheyAreOfInterest) {
  const auto read = [this](std::uint64_t from, std::uint64_t to) {
    const std::shared_ptr<JobReads> job = table_.Open("a", link_);
    for (std::uint64_t file = from; file < to; ++file) {
      const ObjectVersion version{.high = 1, .low = (file + 1) * 0x9E3779B97F4A7C15ULL};
      for (const BlockSpan& span : CutSpans(version, 4096, 4 << 20, 0, 4096))
        job->NoteRead(span, 4096, 4 << 20, Clock::now());
    }
    Read("a", from, std::chrono::milliseconds(1), Tier::kS3);
    return job;
  };
  EXPECT_FALSE(read(0, 4)->HasManyDenseBlocks());
  EXPECT_TRUE(read(4, 20)->HasManyDenseBlocks()) << "an eighth of 64";
  coordinator_.LoseJobReplies(1);
  EXPECT_FALSE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).read_blocks_size(), 20);
  read(20, 30);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).read_blocks_size(), 30) << "what was not confirmed comes again";
  coordinator_.CountReads(false);
  read(30, 35);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).read_blocks_size(), 5);
  read(40, 50);
  coordinator_.CountReads(true);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).read_blocks_size(), 0) << "nobody wanted to know";
  read(50, 60);
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(Last().jobs(0).read_blocks_size(), 10);
}

TEST_F(JobReporterTest, AnEndedJobIsReportedOnceMoreAndForgotten) {
  Read("a", 1, std::chrono::milliseconds(1), Tier::kS3);
  ASSERT_TRUE(Report().has_value());
  table_.EndIdle(Clock::now() + JobReads::kIdleFor + std::chrono::seconds(1));
  coordinator_.LoseJobReplies(1);
  EXPECT_FALSE(Report().has_value());
  EXPECT_EQ(table_.All().size(), 1u) << "nobody has confirmed it";
  ASSERT_TRUE(Report().has_value());
  EXPECT_TRUE(Last().jobs(0).ended());
  EXPECT_TRUE(table_.All().empty());
  ASSERT_TRUE(Report().has_value());
  EXPECT_EQ(coordinator_.job_reports().size(), 3u);
}

TEST_F(JobReporterTest, ManyJobsGoInSeveralReports) {
  for (int i = 0; i < 200; ++i) {
    Read("job" + std::to_string(i), 1, std::chrono::milliseconds(1), Tier::kS3);
  }
  ASSERT_TRUE(Report().has_value());
  int jobs = 0;
  for (const proto::ReportJobsRequest& report : coordinator_.job_reports()) {
    EXPECT_LE(report.jobs_size(), 128);
    jobs += report.jobs_size();
  }
  EXPECT_EQ(jobs, 200);
}

TEST_F(JobReporterTest, TheLastReportEndsAllJobs) {
  Read("a", 1, std::chrono::milliseconds(1), Tier::kS3);
  reporter_.FinishFrom(Deadline::After(std::chrono::seconds(10)));
  ASSERT_EQ(coordinator_.job_reports().size(), 1u);
  EXPECT_TRUE(Last().jobs(0).ended());
}

TEST_F(JobReporterTest, WithoutACoordinatorTheLastReportDoesNotHoldTheUnmountUp) {
  Read("a", 1, std::chrono::milliseconds(1), Tier::kS3);
  coordinator_.Stop();
  const TimePoint begin = Clock::now();
  reporter_.FinishFrom(Deadline::After(std::chrono::milliseconds(200)));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace forebay
