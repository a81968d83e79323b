// Hit rates of a node's eviction over what training jobs do, beside those of other caches. Counts
// only: the same figures on every machine.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/eviction/caches.h"
#include "tests/eviction/workload.h"

namespace forebay::testing {
namespace {

constexpr std::uint32_t kManyNodes = 16;

void Print(const Workload& workload, double part) {
  const Trace trace = MakeTrace(workload);
  const auto places = static_cast<std::size_t>(workload.blocks * part);
  const Outcome own = RunForebay(trace, places);
  const Outcome many = RunForebay(trace, places, kManyNodes);
  std::printf("%-34s %4u %5.2f | %6.3f %6.3f | %8.3f %6.3f | %6.3f %6.3f %6.3f | %8.2f %6.2f\n",
              workload.name.c_str(), workload.jobs, part, own.hit_rate(), many.hit_rate(),
              RunNoEvict(trace, places).hit_rate(),
              RunNoEvict(trace, places, kManyNodes).hit_rate(), RunLru(trace, places).hit_rate(),
              RunOracle(trace, places).hit_rate(), RunBelady(trace, places).hit_rate(),
              own.rewrites(), many.rewrites());
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CLI::App app("hit rates of the eviction over what training jobs read");
  std::uint32_t blocks = 16'000;
  bool all_sizes = false;
  std::string only;
  app.add_option("--blocks", blocks, "blocks of the data set");
  app.add_option("--only", only, "only workloads whose name contains this");
  app.add_flag("--all-sizes", all_sizes, "every workload at every size of the cache");
  CLI11_PARSE(app, argc, argv);

  std::printf("%-34s %4s %5s | %6s %6s | %8s %6s | %6s %6s %6s | %8s %6s\n", "workload", "jobs",
              "c", "1 node", "16", "no-evict", "16", "LRU", "oracle", "Belady", "rewrites", "16");
  const std::vector<double> parts = {0.25, 0.5, 0.75, 0.9};
  std::vector<Workload> workloads;
  for (const std::uint32_t jobs : {1U, 2U, 4U, 8U})
    workloads.push_back(CleanWorkload(jobs, blocks));
  const std::size_t clean = workloads.size();
  for (Workload& workload : LoaderWorkloads(blocks)) workloads.push_back(std::move(workload));
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (workloads[i].name.find(only) == std::string::npos) continue;
    for (const double part : parts) {
      if (part == 0.5 || all_sizes || i < clean) Print(workloads[i], part);
    }
  }
  return 0;
}

}  // namespace
}  // namespace forebay::testing

int main(int argc, char** argv) { return forebay::testing::Main(argc, argv); }
