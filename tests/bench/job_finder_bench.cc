// What a READ pays to learn whose it is: out of memory, with a look at the thread's start time once
// a second, and for a thread that is new.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "fuse-client/job_finder.h"

namespace forebay {
namespace {

/// One request: its job is found, and what it waited is written down.
void ReadOnce(JobFinder& finder, const Uuid& link, TimePoint now) {
  const std::shared_ptr<JobReads> job = finder.BeginRead(::gettid(), link, now);
  job->End(now, now, ReadOutcome());
}

void BM_KnownThread(benchmark::State& state) {
  JobTable table("own");
  JobFinder finder(table, JobFrom::kCgroup);
  const Uuid link = Uuid::Random();
  const TimePoint now = Clock::now();
  for (auto _ : state) ReadOnce(finder, link, now);
}
BENCHMARK(BM_KnownThread);

void BM_ThreadOfASecondAgo(benchmark::State& state) {
  JobTable table("own");
  JobFinder finder(table, JobFrom::kCgroup);
  const Uuid link = Uuid::Random();
  TimePoint now = Clock::now();
  for (auto _ : state) ReadOnce(finder, link, now += JobFinder::kBelieved);
}
BENCHMARK(BM_ThreadOfASecondAgo);

void BM_NewThread(benchmark::State& state) {
  JobTable table("own");
  const Uuid link = Uuid::Random();
  const TimePoint now = Clock::now();
  for (auto _ : state) {
    JobFinder finder(table, JobFrom::kCgroup);
    ReadOnce(finder, link, now);
  }
}
BENCHMARK(BM_NewThread);

}  // namespace
}  // namespace forebay

BENCHMARK_MAIN();
