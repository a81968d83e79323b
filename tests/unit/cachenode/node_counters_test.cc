#include "cachenode/node_counters.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace forebay {
namespace {

TEST(NodeCounters, ALinkHasOneCount) {
  NodeCounters counters;
  const Uuid link = Uuid::Random();
  counters.OfLink(link)->reads = 3;
  EXPECT_EQ(counters.OfLink(link)->reads, 3u);
  EXPECT_EQ(counters.OfLink(Uuid::Random())->reads, 0u);
  EXPECT_EQ(counters.Links().size(), 2u);
}

TEST(NodeCounters, ReadersOfTheSameJobLoseNoCount) {
  NodeCounters counters;
  const Uuid link = Uuid::Random();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        counters.CountJob("job", link, i % 2 == 0);
        counters.OfLink(link)->reads.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<JobCount> jobs = counters.Jobs();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].reads, 40'000u);
  EXPECT_EQ(jobs[0].hits, 20'000u);
  EXPECT_EQ(counters.OfLink(link)->reads, 40'000u);
}

TEST(NodeCounters, TheJobsAreBounded) {
  NodeCounters counters;
  const Uuid link = Uuid::Random();
  for (int i = 0; i < 3000; ++i) counters.CountJob("job" + std::to_string(i), link, true);
  EXPECT_EQ(counters.Jobs().size(), 1024u);
  counters.CountJob("job0", link, true);
  std::uint64_t reads = 0;
  for (const JobCount& job : counters.Jobs()) reads += job.reads;
  EXPECT_EQ(reads, 1025u) << "those that are known are counted on";
}

TEST(NodeCounters, JobsThatReadNothingAreForgotten) {
  NodeCounters counters;
  const Uuid link = Uuid::Random();
  TimePoint now = Clock::now();
  counters.CountJob("idle", link, true);
  counters.CountJob("busy", link, true);
  counters.ForgetIdleJobs(now);
  now += NodeCounters::kJobKept;
  counters.CountJob("busy", link, true);
  counters.ForgetIdleJobs(now);
  EXPECT_EQ(counters.Jobs().size(), 2u);
  counters.ForgetIdleJobs(now + std::chrono::seconds(1));
  ASSERT_EQ(counters.Jobs().size(), 1u);
  EXPECT_EQ(counters.Jobs()[0].job, "busy");
}

TEST(NodeCounters, WithManyJobsTheIdleOnesLeaveEarlierAndMakeRoom) {
  NodeCounters counters;
  const Uuid link = Uuid::Random();
  const TimePoint now = Clock::now();
  for (int i = 0; i < 1024; ++i) counters.CountJob("job" + std::to_string(i), link, true);
  counters.CountJob("late", link, true);
  counters.ForgetIdleJobs(now);
  counters.ForgetIdleJobs(now + NodeCounters::kJobKeptFull + std::chrono::seconds(1));
  EXPECT_TRUE(counters.Jobs().empty());
  counters.CountJob("late", link, true);
  EXPECT_EQ(counters.Jobs().size(), 1u);
}

TEST(NodeCounters, JobsWithoutAnIdOrWithAVeryLongOneAreNotTold) {
  NodeCounters counters;
  counters.CountJob("", Uuid::Random(), true);
  counters.CountJob(std::string(256, 'j'), Uuid::Random(), true);
  EXPECT_TRUE(counters.Jobs().empty());
  counters.CountJob(std::string(255, 'j'), Uuid::Random(), true);
  EXPECT_EQ(counters.Jobs().size(), 1u);
}

}  // namespace
}  // namespace forebay
