#include <malloc.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cachenode/store/block_index.h"
#include "cachenode/store/read_history.h"
#include "tests/bench/store/rig.h"
#include "tests/bench/store/sections.h"

namespace forebay::store_bench {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kPerSegment = 6'500;  ///< Of 40 KB in 256 MiB.
constexpr std::uint64_t kLookups = 2'000'000;

BlockId BlockAt(std::uint64_t number) {
  return {{number * 0x9E3779B97F4A7C15ULL + 1, number}, 0, 40'000};
}

/// What the store keeps of cached blocks in memory.
struct Kept {
  BlockIndex index;
  ReadHistory history;
  std::vector<std::vector<BlockHandle>> segments;  ///< As Segment::blocks.
};

void Fill(Kept& kept, std::uint64_t blocks) {
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (i % kPerSegment == 0) {
      if (!kept.segments.empty()) kept.segments.back().shrink_to_fit();
      kept.segments.emplace_back();
    }
    const BlockPlace place{0, static_cast<std::uint32_t>(i / kPerSegment),
                           static_cast<std::uint32_t>(i % kPerSegment * 10)};
    const auto handle = kept.index.Insert(BlockAt(i), place, 1);
    if (!handle) Die("the index takes no more blocks");
    kept.segments.back().push_back(*handle);
  }
}

/// Every block is read by each job, in another order.
void ReadAll(Kept& kept, std::uint64_t blocks, unsigned jobs) {
  for (unsigned job = 0; job < jobs; ++job) {
    const std::string name = "job" + std::to_string(job);
    for (const std::uint64_t i : Shuffled(blocks, job))
      kept.history.NoteRead(BenchLink(), name, BlockAt(i), true);
  }
}

/// Nanoseconds for finding a block, holding it and letting it go, in each of the threads.
double LookupNs(BlockIndex& index, std::uint64_t blocks, unsigned threads) {
  const double begin = Seconds();
  {
    std::vector<std::jthread> running;
    running.reserve(threads);
    for (unsigned t = 0; t < threads; ++t) {
      running.emplace_back([&index, blocks, t] {
        std::mt19937_64 random(t);
        for (std::uint64_t i = 0; i < kLookups; ++i) {
          const auto found = index.Acquire(BlockAt(random() % blocks), 1);
          if (!found) Die("a block is not found");
          index.Release(found->handle);
        }
      });
    }
  }
  return (Seconds() - begin) * 1e9 / static_cast<double>(kLookups);
}

}  // namespace

json::value Memory(std::uint64_t blocks, unsigned jobs) {
  const std::uint64_t before = ResidentBytes();
  const auto kept = std::make_unique<Kept>();
  Fill(*kept, blocks);
  ::malloc_trim(0);
  const std::uint64_t with_index = ResidentBytes();
  ReadAll(*kept, blocks, jobs);
  ::malloc_trim(0);
  const std::uint64_t with_history = ResidentBytes();
  return json::object{{"blocks", blocks},
                      {"jobs", jobs},
                      {"index_bytes", with_index - before},
                      {"history_bytes", with_history - with_index},
                      {"index_says_bytes", kept->index.MemoryBytes()},
                      {"history_says_bytes", kept->history.MemoryBytes()},
                      {"lookup_ns_1", LookupNs(kept->index, blocks, 1)},
                      {"lookup_ns_2", LookupNs(kept->index, blocks, 2)}};
}

}  // namespace forebay::store_bench
