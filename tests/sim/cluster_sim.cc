// The rules by which a cluster answers (membership, ring, who fills, whom readers ask), run without
// I/O in virtual time, over many seeds: see chaos.h. Exits with 1 when a promise was broken.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/sim/chaos.h"

namespace {

using forebay::sim::Outcome;
using forebay::sim::Story;

constexpr std::size_t kObjects = 48;
/// Every other seed is chaos, the others take turns.
Story StoryOf(std::uint64_t seed) {
  if (seed % 2 == 1) return Story::kChaos;
  return static_cast<Story>(seed / 2 % (forebay::sim::kStories - 1));
}

struct Options {
  std::uint64_t first = 1;
  std::uint64_t count = 200;
  std::size_t threads = 1;
  bool verbose = false;
};

class Runs {
 public:
  explicit Runs(const Options& options) : options_(options), next_(options.first) {}

  void Work() {
    const forebay::sim::Beginnings beginnings;
    const forebay::sim::Dataset single(kObjects, 1);
    const forebay::sim::Dataset twice(kObjects, 2);
    forebay::sim::NodeShared shared;
    for (;;) {
      const std::uint64_t seed = next_++;
      if (seed >= options_.first + options_.count) return;
      const forebay::sim::Dataset& data = seed / 12 % 2 == 0 ? single : twice;
      forebay::sim::Chaos chaos(seed, StoryOf(seed), beginnings, data, shared);
      const Outcome outcome = chaos.Run();
      const std::scoped_lock lock(mutex_);
      if (options_.verbose)
        fmt::print("seed {} ({}): {} reads, {} faults, {} GETs, {} tables\n", seed,
                   StoryName(StoryOf(seed)), outcome.reads, outcome.faults, outcome.gets,
                   outcome.tables);
      all_.Add(outcome);
    }
  }

  const Outcome& all() const { return all_; }

 private:
  const Options options_;
  std::atomic<std::uint64_t> next_;
  std::mutex mutex_;
  Outcome all_;
};

int Report(const Outcome& all) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  fmt::print("{} seeds: {} reads, {} faults, {} calls, {} events, {} GETs, {} new ring tables\n",
             all.seeds, all.reads, all.faults, all.calls, all.events, all.gets, all.tables);
  for (const auto& [fault, count] : all.by_fault) fmt::print("  {:>9}  {}\n", count, fault);
  fmt::print(
      "longest read {:.0f} ms of virtual time; {} GETs that an owner behind could have spared\n",
      Milliseconds(all.longest).count(), all.gets_behind);
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(all.broken.size(), kShown); ++i)
    fmt::print("BROKEN {}\n", all.broken[i]);
  fmt::print("{} promises broken\n", all.broken.size());
  return all.broken.empty() ? 0 : 1;
}

int Run(int argc, char** argv) {
  Options options;
  CLI::App app("A simulated cluster under faults. A seed gives the same run everywhere.");
  app.add_option("--first", options.first, "The first seed")->capture_default_str();
  app.add_option("--seeds", options.count, "How many")->capture_default_str();
  app.add_option("--threads", options.threads, "Runs at once")->capture_default_str();
  app.add_flag("--verbose", options.verbose, "A line for each seed");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(options.verbose && options.count == 1 ? spdlog::level::debug
                                                          : spdlog::level::off);
  Runs runs(options);
  std::vector<std::thread> threads;
  threads.reserve(options.threads);
  for (std::size_t i = 0; i < options.threads; ++i) threads.emplace_back([&runs] { runs.Work(); });
  for (std::thread& thread : threads) thread.join();
  return Report(runs.all());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cluster_sim: {}\n", error.what());
    return 2;
  }
}
