#include "fuse-client/job_table.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "common/model/limits.h"
#include "fuse-client/job_text.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

TEST(JobTable, OneJobOnTwoLinksIsTwoRows) {
  JobTable table("own");
  const Uuid first = Uuid::Random();
  const Uuid second = Uuid::Random();
  table.SetLink(first, LinkFacts{.name = "a", .generation = 3, .blocks = 10});
  const auto job = table.Open("1", first);
  EXPECT_EQ(table.Open("1", first), job);
  EXPECT_NE(table.Open("1", second), job);
  EXPECT_EQ(job->facts().name, "a");
  EXPECT_EQ(table.All().size(), 2u);
}

TEST(JobTable, WhenItIsFullTheOneThatHasNotReadForLongestEnds) {
  JobTable table("own");
  const Uuid link = Uuid::Random();
  std::vector<std::shared_ptr<JobReads>> jobs;
  for (std::size_t i = 0; i < JobTable::kMaxJobs; ++i) {
    jobs.push_back(table.Open(std::to_string(i), link));
    ASSERT_TRUE(jobs.back()->Begin(Clock::now()));
  }
  EXPECT_EQ(table.Open("late", link)->id(), "own") << "all of the others are reading";
  jobs[3]->End(Clock::now(), Clock::now(), ReadOutcome());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i != 3) jobs[i]->End(Clock::now(), Clock::now() + std::chrono::seconds(1), ReadOutcome());
  }
  EXPECT_EQ(table.Open("late", link)->id(), "late");
  EXPECT_TRUE(jobs[3]->Look().ended);
  EXPECT_FALSE(jobs[4]->Look().ended);
}

TEST(JobTable, AnEndedJobStaysUntilItsLastReportWasTaken) {
  JobTable table("own");
  const Uuid link = Uuid::Random();
  const auto job = table.Open("1", link);
  table.EndIdle(Clock::now() + JobReads::kIdleFor + std::chrono::seconds(1));
  EXPECT_TRUE(job->Look().ended);
  EXPECT_EQ(table.All().size(), 1u);
  EXPECT_TRUE(JobsJson(table).empty());
  const auto again = table.Open("1", link);
  EXPECT_NE(again, job);
  table.Remove(job);
  EXPECT_EQ(table.All(), std::vector{again});
}

TEST(JobText, SaysWhatAJobReadAndWaitedFor) {
  JobTable table("own");
  const Uuid link = Uuid::Random();
  table.SetLink(link, LinkFacts{.name = "imagenet", .generation = 3, .blocks = 10});
  const auto job = table.Open("4711", link);
  const TimePoint now = Clock::now();
  ASSERT_TRUE(job->Begin(now));
  ReadOutcome outcome{.slowest = Tier::kS3};
  outcome.bytes[static_cast<std::size_t>(Tier::kS3)] = 1024;
  job->End(now, now + std::chrono::seconds(2), outcome);
  EXPECT_EQ(
      JobLine(*job),
      "job 4711 on imagenet: 1 reads, half within 2 s and 99 % within 2 s: 0 B in 0.0 s from local "
      "caches, 0 B in 0.0 s from "
      "peers, 1.00 KiB in 2.0 s from S3; waited 0.0 s for nodes that did not answer; 0 failed");
  const boost::json::array json = JobsJson(table);
  ASSERT_EQ(json.size(), 1u);
  const boost::json::object& row = json[0].as_object();
  EXPECT_TRUE(row.at("epoch").is_null()) << "no coordinator has said";
  EXPECT_EQ(row.at("stall_seconds").to_number<double>(), 2.0);
  EXPECT_EQ(row.at("read_seconds").at("p99").to_number<double>(), 2.0);
  EXPECT_EQ(row.at("read_bytes").at("s3").to_number<int>(), 1024);
  job->Confirm(0, 3, 0.25);
  EXPECT_EQ(JobsJson(table)[0].at("epoch").to_number<int>(), 3);
  EXPECT_EQ(JobsJson(table)[0].at("progress").to_number<double>(), 0.25);
}

TEST(JobText, TheMountsOwnJobHasANameThatFits) {
  EXPECT_TRUE(OwnJobId("/mnt/x").ends_with(":/mnt/x"));
  const std::string longest = OwnJobId(std::string(4000, 'p') + "/end");
  EXPECT_EQ(longest.size(), kMaxJobIdBytes);
  EXPECT_TRUE(longest.ends_with("/end"));
}

}  // namespace
}  // namespace forebay
