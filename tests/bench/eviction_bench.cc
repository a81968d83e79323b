// Hit rates of a node's eviction over what training jobs do, beside those of other caches. Counts
// only: the same figures on every machine.

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/eviction/caches.h"
#include "tests/eviction/whole_node.h"
#include "tests/eviction/workload.h"

namespace forebay::testing {
namespace {

constexpr std::uint32_t kManyNodes = 16;

struct Row {
  Outcome node;
  Outcome nodes16;
  Outcome no_evict;
  Outcome no_evict16;
  Outcome lru;
  Outcome oracle;
  Outcome belady;
};

boost::json::object ToJson(const Outcome& outcome) {
  return {{"reads", outcome.reads},
          {"hits", outcome.hits},
          {"admitted", outcome.admitted},
          {"hit_rate", outcome.hit_rate()},
          {"rewrites", outcome.rewrites()}};
}

boost::json::object ToJson(const Workload& workload, double part, const Row& row) {
  return {{"workload", workload.name},
          {"jobs", workload.jobs},
          {"part", part},
          {"blocks", workload.blocks},
          {"node", ToJson(row.node)},
          {"nodes16", ToJson(row.nodes16)},
          {"no_evict", ToJson(row.no_evict)},
          {"no_evict16", ToJson(row.no_evict16)},
          {"lru", ToJson(row.lru)},
          {"oracle", ToJson(row.oracle)},
          {"belady", ToJson(row.belady)}};
}

struct Bench {
  std::uint64_t disk_bytes = 0;
  std::size_t places = 0;  // on that disk
  std::string only;
  bool all_sizes = false;
  bool choice_alone = false;
  bool json = false;

  void PrintAll() const;

 private:
  void Print(const Workload& workload, double part) const;
  Outcome RunWhole(const Trace& trace, std::size_t of_places) const;
};

/// On a disk with room for so many places and no more; or, when a data set is smaller than the
/// others of the bench, in a quota of so many.
Outcome Bench::RunWhole(const Trace& trace, std::size_t of_places) const {
  if (choice_alone) return RunForebay(trace, of_places);
  WholeNode node(disk_bytes);
  if (of_places < places - 1) node.SetQuota(0, of_places);
  return node.Run(trace).whole;
}

void Bench::Print(const Workload& workload, double part) const {
  const Trace trace = MakeTrace(workload);
  const auto of_places = static_cast<std::size_t>(workload.blocks * part);
  const Row row{.node = RunWhole(trace, of_places),
                .nodes16 = RunForebay(trace, of_places, kManyNodes),
                .no_evict = RunNoEvict(trace, of_places),
                .no_evict16 = RunNoEvict(trace, of_places, kManyNodes),
                .lru = RunLru(trace, of_places),
                .oracle = RunOracle(trace, of_places),
                .belady = RunBelady(trace, of_places)};
  if (json) {
    std::puts(serialize(ToJson(workload, part, row)).c_str());
  } else {
    std::printf("%-34s %4u %5.2f | %6.3f %6.3f | %8.3f %6.3f | %6.3f %6.3f %6.3f | %8.2f %6.2f\n",
                workload.name.c_str(), workload.jobs, part, row.node.hit_rate(),
                row.nodes16.hit_rate(), row.no_evict.hit_rate(), row.no_evict16.hit_rate(),
                row.lru.hit_rate(), row.oracle.hit_rate(), row.belady.hit_rate(),
                row.node.rewrites(), row.nodes16.rewrites());
  }
  std::fflush(stdout);
}

void Bench::PrintAll() const {
  if (!json) {
    std::printf("a cache of %zu blocks, c of the data set\n", places);
    std::printf("%-34s %4s %5s | %6s %6s | %8s %6s | %6s %6s %6s | %8s %6s\n", "workload", "jobs",
                "c", "1 node", "16", "no-evict", "16", "LRU", "oracle", "Belady", "rewrites", "16");
  }
  for (const double part : {0.5, 0.25, 0.75, 0.9}) {
    const auto blocks = static_cast<std::uint32_t>(static_cast<double>(places) / part);
    std::vector<Workload> workloads;
    for (const std::uint32_t jobs : {1U, 2U, 4U, 8U})
      workloads.push_back(CleanWorkload(jobs, blocks));
    if (part == 0.5 || all_sizes) {
      for (Workload& workload : LoaderWorkloads(blocks)) workloads.push_back(std::move(workload));
    }
    for (const Workload& workload : workloads) {
      if (workload.name.find(only) != std::string::npos) Print(workload, part);
    }
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "hit rates of the eviction over what training jobs read: a node from the question to the "
      "disk, and its choice of what to evict on 16 nodes, beside other caches");
  std::uint64_t mebibytes = 20;
  Bench bench;
  app.add_option("--disk-mib", mebibytes, "disk of the node, or of all 16 together");
  app.add_option("--only", bench.only, "only workloads whose name contains this");
  app.add_flag("--all-sizes", bench.all_sizes, "every workload at every size of the data set");
  app.add_flag("--choice-alone", bench.choice_alone,
               "the one node without its disk, too: sooner done");
  app.add_flag("--json", bench.json, "one object for each row");
  CLI11_PARSE(app, argc, argv);
  bench.disk_bytes = mebibytes << 20U;
  bench.places = WholeNode::PlacesIn(bench.disk_bytes);
  bench.PrintAll();
  return 0;
}

}  // namespace
}  // namespace forebay::testing

int main(int argc, char** argv) { return forebay::testing::Main(argc, argv); }
