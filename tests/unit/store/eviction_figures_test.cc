#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/eviction/caches.h"
#include "tests/eviction/workload.h"

// The figures of docs/adr/0007-eviction.md, on smaller data sets. Counts: the same on every run.

namespace forebay::testing {
namespace {

constexpr std::uint32_t kBlocks = 1600;
constexpr std::uint32_t kLoaderBlocks = 4000;
/// Hit rates of two policies on one trace differ by so much for no reason.
constexpr double kSame = 0.01;

std::size_t PlacesOf(const Workload& workload, double part) {
  return static_cast<std::size_t>(workload.blocks * part);
}

TEST(EvictionFigures, OneJobHitsAsOftenAsItsCacheIsLarge) {
  const Workload workload = CleanWorkload(1, kBlocks);
  const Trace trace = MakeTrace(workload);
  for (const double part : {0.25, 0.5, 0.75, 0.9}) {
    const Outcome outcome = RunForebay(trace, PlacesOf(workload, part));
    EXPECT_GE(outcome.hit_rate(), 0.99 * part) << part;
    EXPECT_LE(outcome.rewrites(), 0.5) << part;
  }
}

TEST(EvictionFigures, SeveralJobsHitMoreThanTheirCacheIsLarge) {
  for (const std::uint32_t jobs : {2U, 4U, 8U}) {
    const Workload workload = CleanWorkload(jobs, kBlocks);
    const Trace trace = MakeTrace(workload);
    EXPECT_GE(RunForebay(trace, PlacesOf(workload, 0.5)).hit_rate(), 0.60) << jobs;
  }
}

TEST(EvictionFigures, OnePercentOfEarlyReReadsCostsNothing) {
  for (const std::uint32_t jobs : {2U, 8U}) {
    Workload workload = CleanWorkload(jobs, kBlocks);
    workload.early_rereads = 0.01;
    EXPECT_GE(RunForebay(MakeTrace(workload), PlacesOf(workload, 0.5)).hit_rate(), 0.58) << jobs;
  }
}

TEST(EvictionFigures, NextDataSetHitsFromItsSecondEpoch) {
  for (const bool new_jobs : {false, true}) {
    for (const double part : {0.25, 0.5, 0.75, 0.9}) {
      Workload workload = CleanWorkload(1, kBlocks);
      workload.switches = Workload::Switch::kLink;
      workload.new_jobs = new_jobs;
      workload.measured_from = 7.0 / 12;  // six epochs of the old, one of the new
      const Outcome outcome = RunForebay(MakeTrace(workload), PlacesOf(workload, part));
      EXPECT_GE(outcome.hit_rate(), 0.99 * part) << part << (new_jobs ? ", new job" : ", same job");
    }
  }
}

TEST(EvictionFigures, NeverBelowNoEviction) {
  for (const Workload& workload : LoaderWorkloads(kLoaderBlocks)) {
    const Trace trace = MakeTrace(workload);
    const std::size_t places = PlacesOf(workload, 0.5);
    const Outcome outcome = RunForebay(trace, places);
    EXPECT_GE(outcome.hit_rate(), RunNoEvict(trace, places).hit_rate() - kSame)
        << workload.name << ", " << workload.jobs << " jobs";
    if (workload.jobs == 1) {
      EXPECT_LE(outcome.rewrites(), 0.5) << workload.name;
    }
  }
}

}  // namespace
}  // namespace forebay::testing
