#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/job_advice.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kGiB = 1ULL << 30;

/// A job that is well: many reads, all from caches, ten at a time.
proto::DescribeJobReply HealthyJob() {
  proto::DescribeJobReply job;
  job.set_active(true);
  job.set_mounts(2);
  job.set_processes(16);
  proto::JobStats& row = *job.add_links();
  row.set_id("4711");
  row.set_link("imagenet");
  row.set_generation(3);
  row.set_reads(10'000);
  row.set_hits(9'990);
  row.set_early_reads(5'000);
  row.set_early_hits(4'990);
  row.set_mounts(2);
  row.set_epoch(2);
  row.set_progress(0.5);
  proto::JobWaits& waits = *row.mutable_waits();
  waits.set_reads(10'000);
  waits.set_local_us(4'000'000);
  waits.set_peer_us(6'000'000);
  waits.set_busy_us(1'000'000);
  *job.mutable_waits() = waits;
  return job;
}

void AddNode(proto::DescribeJobReply& job, const std::string& id, std::uint64_t reads,
             std::uint64_t mean_us) {
  proto::NodeAnswers& node = *job.add_nodes();
  node.set_node(id);
  node.set_reads(reads);
  node.set_wait_us(reads * mean_us);
}

TEST(JobAdvice, AHealthyJobNeedsNothing) {
  const Advice advice = AdviceFor(HealthyJob(), SampleStats());
  EXPECT_EQ(advice.kind, AdviceKind::kNothing);
  EXPECT_EQ(
      advice.text,
      "nothing to do: 100.0 % of the wait was for caches, a read took 1.00 ms on average, and 10.0 "
      "were under way at a time");
}

TEST(JobAdvice, WaitingForS3IsSparedByAPreload) {
  proto::DescribeJobReply job = HealthyJob();
  job.mutable_waits()->set_s3_us(2'400'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing);
  job.mutable_waits()->set_s3_us(2'600'000);
  const Advice advice = AdviceFor(job, SampleStats());
  EXPECT_EQ(advice.kind, AdviceKind::kPreload);
  EXPECT_THAT(advice.text, StartsWith("preload imagenet: "));
}

// Also of a job that has read next to nothing: it hangs.
TEST(JobAdvice, AnS3ThatDoesNotAnswerComesFirst) {
  proto::DescribeJobReply job = HealthyJob();
  job.mutable_waits()->set_reads(1);
  proto::StatsReply stats = SampleStats();
  proto::S3Wait& wait = *stats.mutable_nodes(0)->add_s3_waits();
  wait.set_bucket("other");
  wait.set_longest_ms(40'000);
  EXPECT_EQ(AdviceFor(job, stats).kind, AdviceKind::kNothing);
  stats.mutable_links(0)->set_source("s3://data/train/");
  ASSERT_EQ(stats.links(0).name(), "imagenet");
  wait.set_bucket("data");
  wait.set_prefix("train/");
  wait.set_why("no answer within 5 s");
  const Advice advice = AdviceFor(job, stats);
  EXPECT_EQ(advice.kind, AdviceKind::kS3Away);
  EXPECT_THAT(advice.text,
              HasSubstr("it has not answered for imagenet for 40.0 s: no answer within 5 s"));
  wait.set_longest_ms(9'999);
  EXPECT_EQ(AdviceFor(job, stats).kind, AdviceKind::kNothing);
}

TEST(JobAdvice, OneReadAtATimeIsTooFew) {
  proto::DescribeJobReply job = HealthyJob();
  job.mutable_waits()->set_busy_us(6'600'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing);
  job.mutable_waits()->set_busy_us(6'700'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kMoreWorkers);
  job.mutable_waits()->set_detour_us(5'000'000);
  job.mutable_waits()->set_busy_us(11'000'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing)
      << "it stalls, and would with more workers";
}

TEST(JobAdvice, MissesAfterTheFirstEpochOfALinkThatDoesNotFitAskForMoreCache) {
  proto::DescribeJobReply job = HealthyJob();
  job.mutable_links(0)->set_hits(9'000);
  proto::StatsReply cluster = SampleStats();
  cluster.mutable_links(0)->mutable_generation()->set_bytes(100 * kGiB);
  const Advice advice = AdviceFor(job, cluster);
  EXPECT_EQ(advice.kind, AdviceKind::kMoreCache);
  EXPECT_THAT(advice.text, HasSubstr("imagenet has 100 GiB and the nodes hold 20.0 GiB in all"));
  EXPECT_THAT(advice.text, HasSubstr("80.2 %"));

  job.mutable_links(0)->set_epoch(1);
  EXPECT_EQ(AdviceFor(job, cluster).kind, AdviceKind::kNothing) << "first reads are misses";
  job.mutable_links(0)->set_epoch(2);
  cluster.mutable_links(0)->mutable_generation()->set_bytes(20 * kGiB);
  EXPECT_EQ(AdviceFor(job, cluster).kind, AdviceKind::kNothing) << "it fits";
}

TEST(JobAdvice, ANodeThreeTimesSlowerThanTheOthersIsNamed) {
  proto::DescribeJobReply job = HealthyJob();
  AddNode(job, "n1", 1000, 400);
  AddNode(job, "n2", 1000, 600);
  AddNode(job, "n3", 1000, 1'499);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing);
  job.mutable_nodes(2)->set_wait_us(1'501'000);
  const Advice advice = AdviceFor(job, SampleStats());
  EXPECT_EQ(advice.kind, AdviceKind::kSlowNode);
  EXPECT_THAT(advice.text, StartsWith("node n3 is slow: "));
}

TEST(JobAdvice, WhoAnswersWithinAMillisecondIsNotSlow) {
  proto::DescribeJobReply job = HealthyJob();
  AddNode(job, "n1", 1000, 40);
  AddNode(job, "n2", 1000, 50);
  AddNode(job, "n3", 1000, 999);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing);
  job.mutable_nodes(2)->set_wait_us(1'001'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kSlowNode);
}

TEST(JobAdvice, AFewAnswersOrOneOtherNodeTellNothing) {
  proto::DescribeJobReply job = HealthyJob();
  AddNode(job, "n1", 1000, 100);
  AddNode(job, "n2", 1000, 10'000);
  AddNode(job, "n3", 99, 100);
  EXPECT_EQ(AdviceFor(job, SampleStats()).kind, AdviceKind::kNothing);
}

TEST(JobAdvice, AFewReadsAreTooFewToJudge) {
  proto::DescribeJobReply job = HealthyJob();
  job.mutable_waits()->set_reads(99);
  job.mutable_waits()->set_s3_us(1'000'000'000);
  EXPECT_EQ(AdviceFor(job, SampleStats()).text,
            "nothing to do: 99 reads are too few to judge it by");
  EXPECT_EQ(AdviceFor(proto::DescribeJobReply(), SampleStats()).kind, AdviceKind::kNothing);
}

TEST(Explain, ShowsWhereAJobWaits) {
  ScriptedSession session;
  session.Answer(Method::kDescribeJob, HealthyJob());
  session.Answer(Method::kStats, SampleStats());
  const Ran ran = RunForebay(session, {"explain", "--job", "4711"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(session.Asked<proto::DescribeJobRequest>(0).job(), "4711");
  EXPECT_EQ(
      ran.out,
      "job 4711 reads on 2 mounts with 16 processes\n"
      "\n"
      "JOB   LINK      GENERATION  MOUNTS  EPOCH  PROGRESS   READS  HIT-RATIO  STALLED\n"
      "4711  imagenet           3       2      2    50.0 %  10,000     99.9 %     0 ms\n"
      "\n"
      "10,000 reads waited 10.0 s, summed over reads, 10.0 at a time:\n"
      "  page cache    not known: the kernel serves it without asking\n"
      "  local cache    40.0 %        4.00 s         0 B\n"
      "  peers          60.0 %        6.00 s         0 B\n"
      "  S3              0.0 %          0 ms         0 B\n"
      "  stalls          0.0 %          0 ms  0 failed\n"
      "\n"
      "nothing to do: 100.0 % of the wait was for caches, a read took 1.00 ms on average, and 10.0 "
      "were under way at a time\n");
}

TEST(Explain, AJobThatNeverWasIsOneSentence) {
  ScriptedSession session;
  session.Refuse(Method::kDescribeJob,
                 Error{Code::kNotFound, "no job '4710' has read anything; the nearest is '4711'"});
  const Ran ran = RunForebay(session, {"explain", "--job", "4710"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("the nearest is '4711'"));
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
}

TEST(Explain, NeedsToBeToldWhat) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"explain"}).exit, 2);
}

}  // namespace
}  // namespace forebay::testing
