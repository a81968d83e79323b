#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/eviction/workload.h"

namespace forebay::testing {

/// What a cache made of a trace, from its `measured_from` on. A READ that follows others of its
/// block at once is answered from the node's memory and counts as no read.
struct Outcome {
  std::uint64_t reads = 0;
  std::uint64_t hits = 0;
  std::uint64_t admitted = 0;

  double hit_rate() const { return static_cast<double>(hits) / static_cast<double>(reads); }
  /// Blocks written to the disk for each miss.
  double rewrites() const {
    return reads == hits ? 0 : static_cast<double>(admitted) / static_cast<double>(reads - hits);
  }
};

/// The node's own choice (BlockIndex, ReadHistory, VictimChoice) on `nodes` nodes that share the
/// blocks and `places` places evenly.
Outcome RunForebay(const Trace& trace, std::size_t places, std::uint32_t nodes = 1);

/// What it is compared with. Keeps what came first, on as many nodes.
Outcome RunNoEvict(const Trace& trace, std::size_t places, std::uint32_t nodes = 1);
/// These on one node.
Outcome RunLru(const Trace& trace, std::size_t places);
/// Knows when epochs begin and end, and the jobs' speeds; evicts what fewest jobs still want in
/// their epochs, the ones with the least left of it most.
Outcome RunOracle(const Trace& trace, std::size_t places);
/// Knows the future.
Outcome RunBelady(const Trace& trace, std::size_t places);

}  // namespace forebay::testing
