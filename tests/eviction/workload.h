#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forebay::testing {

/// How a run of training jobs reads blocks. Deterministic.
struct Workload {
  std::string name;
  std::uint32_t jobs = 1;
  std::uint32_t blocks = 4000;  ///< Of each data set.
  std::uint32_t epochs = 12;    ///< Of each job.
  double measured_from = 0.4;   ///< The part of the reads that only warms up.

  double early_rereads = 0;          ///< Chance that a read is followed by one of an earlier block.
  double validation = 0;             ///< The part of the blocks that is read apart, in order …
  std::uint32_t validations = 0;     ///< … so many times in an epoch.
  std::uint32_t reads_in_a_row = 1;  ///< READs of each block, one after the other.
  std::uint32_t samples_per_block = 1;  ///< READs of each block at random times in the epoch.
  std::vector<double> speeds = {};      ///< Of the jobs; empty: all the same.
  double page_cache = 0;  ///< Of each job, part of the data set; its hits are no reads (LRU).
  bool in_step = false;   ///< All jobs begin together.
  bool in_order = false;  ///< Every epoch in the same order.

  // One job that is not like the others.
  std::optional<std::uint32_t> stops = {};        ///< In the middle of its fifth epoch.
  std::optional<std::uint32_t> reads_half = {};   ///< The same half of the blocks each epoch.
  std::optional<std::uint32_t> reads_twice = {};  ///< Each block again a tenth of an epoch later.
  std::optional<std::uint32_t> reads_in_order = {};

  /// After half of its epochs every job goes on with another data set …
  enum class Switch : std::uint8_t { kNone, kLink, kFolder } switches = Switch::kNone;
  bool new_jobs = false;  ///< … under another name.
};

struct BlockRead {
  std::uint32_t job = 0;
  std::uint32_t link = 0;
  std::uint32_t block = 0;  ///< Unique over all links.
  std::uint32_t epoch = 0;
  std::uint32_t left = 0;  ///< Reads until the epoch ends.
};

struct Trace {
  std::vector<BlockRead> reads;
  std::size_t measured_from = 0;  ///< Index into `reads`.
  std::uint32_t blocks = 0;       ///< Upper bound of BlockRead::block.
  std::uint32_t jobs = 0;
};

Trace MakeTrace(const Workload& workload);

/// What the bench prints and the tests judge, except for clean permutations.
std::vector<Workload> LoaderWorkloads(std::uint32_t blocks);
/// `jobs` permuting loaders.
Workload CleanWorkload(std::uint32_t jobs, std::uint32_t blocks);

}  // namespace forebay::testing
