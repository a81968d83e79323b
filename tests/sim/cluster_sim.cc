// The rules by which a cluster answers (membership, ring, who fills, whom readers ask), run without
// I/O in virtual time, over many seeds: see chaos.h. Exits with 1 when a promise was broken.
#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <ratio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sim/chaos.h"

namespace {

using forebay::sim::Dataset;
using forebay::sim::Fate;
using forebay::sim::Outcome;
using forebay::sim::Story;
using forebay::sim::StoryNamed;

/// Three of four seeds are chaos, where nearly all faults are; the others take turns. A week takes
/// long, and is asked for.
constexpr std::uint64_t kChaosAndOne = 4;
constexpr auto kTurns = static_cast<std::uint64_t>(Story::kChaos);
Story StoryOf(std::uint64_t seed) {
  return seed % kChaosAndOne != 0 ? Story::kChaos
                                  : static_cast<Story>(seed / kChaosAndOne % kTurns);
}

/// Links have one copy of each block to three, in turns that no story's follow.
std::uint32_t ReplicasOf(std::uint64_t seed) {
  return static_cast<std::uint32_t>(seed / (kChaosAndOne * kTurns) % forebay::kMostReplicas) + 1;
}

struct Options {
  std::uint64_t first = 1;
  std::uint64_t count = 200;
  std::size_t threads = 1;
  std::string story;
  std::uint32_t days = 7;
  std::uint64_t least_faults = 0;
  bool mutants = false;
  bool verbose = false;
};

/// What the lives of one thread share.
class Lives {
 public:
  explicit Lives(const forebay::sim::Beginnings& beginnings) : beginnings_(beginnings) {}

  Outcome Live(const Fate& fate) {
    const auto key = std::pair(fate.story, ReplicasOf(fate.seed));
    auto& data = data_[key];
    if (!data) data = std::make_unique<Dataset>(forebay::sim::ShapeFor(key.first, key.second));
    forebay::sim::Chaos chaos(fate, beginnings_, *data, shared_);
    return chaos.Run();
  }

 private:
  const forebay::sim::Beginnings& beginnings_;
  std::map<std::pair<Story, std::uint32_t>, std::unique_ptr<const Dataset>> data_;
  forebay::sim::NodeShared shared_;
};

class Runs {
 public:
  explicit Runs(const Options& options) : options_(options), next_(options.first) {}

  void Work() {
    Lives lives(beginnings_);
    for (;;) {
      Fate fate{.seed = next_++, .days = options_.days};
      if (fate.seed >= options_.first + options_.count) return;
      fate.story = options_.story.empty() ? StoryOf(fate.seed) : StoryNamed(options_.story);
      const Outcome outcome = lives.Live(fate);
      const std::scoped_lock lock(mutex_);
      if (options_.verbose)
        fmt::print("seed {} ({}): {} reads, {} faults, {} GETs, {} tables\n", fate.seed,
                   StoryName(fate.story), outcome.reads, outcome.faults, outcome.gets,
                   outcome.tables);
      all_.Add(outcome);
    }
  }

  const Outcome& all() const { return all_; }

 private:
  const Options options_;
  const forebay::sim::Beginnings beginnings_;
  std::atomic<std::uint64_t> next_;
  std::mutex mutex_;
  Outcome all_;
};

/// Of this machine's clocks; the world's stand before them wherever std::chrono is asked.
double Seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void PrintRate(const Outcome& all, double wall_s, double cpu_s) {
  const auto per_minute = [&all](double s) {
    return s > 0 ? static_cast<double>(all.faults) / s * 60 : 0.0;
  };
  const std::chrono::duration<double, std::ratio<3600>> simulated = all.simulated;
  fmt::print(
      "{} seeds, {} faults in {:.1f} s, {:.1f} s of processors: {:.0f} faults a minute, {:.0f} in "
      "a minute of a processor; {:.1f} simulated hours\n",
      all.seeds, all.faults, wall_s, cpu_s, per_minute(wall_s), per_minute(cpu_s),
      simulated.count());
}

int Report(const Outcome& all, const Options& options) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  fmt::print("{} seeds: {} reads, {} faults, {} calls, {} events, {} GETs, {} new ring tables\n",
             all.seeds, all.reads, all.faults, all.calls, all.events, all.gets, all.tables);
  for (const auto& [fault, count] : all.by_fault) fmt::print("  {:>9}  {}\n", count, fault);
  fmt::print(
      "longest read {:.0f} ms of virtual time; {} GETs that an owner behind could have spared; {} "
      "second GETs for far readers; {} blocks fetched in the place of their owners; {} reads given "
      "up, {} failed without any node; {} pinned "
      "copies "
      "released\n",
      Milliseconds(all.longest).count(), all.gets_behind, all.second_gets, all.stand_in_fills,
      all.given_up, all.excused, all.released);
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(all.broken.size(), kShown); ++i)
    fmt::print("BROKEN {}\n", all.broken[i]);
  fmt::print("{} promises broken\n", all.broken.size());
  if (all.faults < options.least_faults) {
    fmt::print("there were {} faults, and {} are needed to say anything: raise --seeds\n",
               all.faults, options.least_faults);
    return 1;
  }
  return all.broken.empty() ? 0 : 1;
}

/// Each rule that is broken on purpose must be noticed, by the promise that is about it.
int RunMutants(const Options& options) {
  constexpr std::uint64_t kMostSeeds = 40;
  const forebay::sim::Beginnings beginnings;
  Lives lives(beginnings);
  std::size_t missed = 0;
  for (const forebay::sim::MutantRow& row : forebay::sim::kMutantTable) {
    std::string caught;
    std::string other = "nothing";
    std::uint64_t seed = options.first;
    for (; caught.empty() && seed < options.first + kMostSeeds; ++seed) {
      const Outcome outcome = lives.Live({seed, StoryNamed(row.story), row.mutant, options.days});
      for (const std::string& sentence : outcome.broken) {
        if (caught.empty() && sentence.find(row.caught) != std::string::npos) caught = sentence;
        other = sentence;
      }
    }
    if (caught.empty()) ++missed;
    fmt::print("{:>16}: {}\n", row.name,
               caught.empty() ? fmt::format("NOT NOTICED in {} lives; seen: {}", kMostSeeds, other)
                              : caught);
  }
  fmt::print("{} of {} broken rules were not noticed\n", missed, forebay::sim::kMutants);
  return missed == 0 ? 0 : 1;
}

int Run(int argc, char** argv) {
  Options options;
  CLI::App app("A simulated cluster under faults. A seed gives the same run everywhere.");
  app.add_option("--first", options.first, "The first seed")->capture_default_str();
  app.add_option("--seeds", options.count, "How many")->capture_default_str();
  app.add_option("--threads", options.threads, "Runs at once")->capture_default_str();
  app.add_option("--story", options.story, "One story alone: chaos, week, killed, far, …")
      ->check([](const std::string& name) {
        return StoryNamed(name) == static_cast<Story>(forebay::sim::kStories)
                   ? "there is no story \"" + name + "\""
                   : std::string();
      });
  app.add_option("--days", options.days, "Of a story of a week")->capture_default_str();
  app.add_option("--least-faults", options.least_faults, "Fail when there were fewer")
      ->capture_default_str();
  app.add_flag("--mutants", options.mutants, "Break each rule in turn, and see that it is noticed");
  app.add_flag("--verbose", options.verbose, "A line for each seed");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(options.verbose && options.count == 1 ? spdlog::level::debug
                                                          : spdlog::level::off);
  if (options.mutants) return RunMutants(options);
  const double begin = Seconds(CLOCK_MONOTONIC);
  Runs runs(options);
  std::vector<std::thread> threads;
  threads.reserve(options.threads);
  for (std::size_t i = 0; i < options.threads; ++i) threads.emplace_back([&runs] { runs.Work(); });
  for (std::thread& thread : threads) thread.join();
  const int code = Report(runs.all(), options);
  PrintRate(runs.all(), Seconds(CLOCK_MONOTONIC) - begin, Seconds(CLOCK_PROCESS_CPUTIME_ID));
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // Tables and blocks of a megabyte come and go: what was given back is kept, and not cleared
  // again.
  constexpr int kMost = 32 << 20;  // that malloc takes as a threshold
  // NOLINTBEGIN(concurrency-mt-unsafe): there is no other thread yet
  (void)::mallopt(M_MMAP_THRESHOLD, kMost);
  (void)::mallopt(M_TRIM_THRESHOLD, kMost);
  // NOLINTEND(concurrency-mt-unsafe)
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cluster_sim: {}\n", error.what());
    return 2;
  }
}
