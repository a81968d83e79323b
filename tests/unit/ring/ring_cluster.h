#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/ring/ring.h"

namespace forebay {

inline constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;
inline constexpr std::int64_t kNow = 1'700'000'000;

/// A member named after its number, so that ascending numbers are ascending ids.
inline NodeInfo Member(int number, std::uint64_t capacity = kTiB) {
  NodeInfo node;
  node.id = "node-" + std::to_string(10'000 + number);
  node.address = "127.0.0.1:" + std::to_string(7441 + number);
  node.capacity_bytes = capacity;
  return node;
}

inline std::vector<NodeInfo> Members(int count) {
  std::vector<NodeInfo> members;
  for (int i = 0; i < count; ++i) members.push_back(Member(i));
  return members;
}

/// Capacities 1:2:4 in turn.
inline std::vector<NodeInfo> WeightedMembers(int count) {
  std::vector<NodeInfo> members;
  for (int i = 0; i < count; ++i) members.push_back(Member(i, kTiB << (i % 3)));
  return members;
}

/// How often each node stands at each rank in [first, last].
inline std::vector<std::uint32_t> Holdings(const RingTable& table, std::size_t first,
                                           std::size_t last) {
  std::vector<std::uint32_t> held(table.nodes().size(), 0);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    const auto owners = table.OwnersOf(p);
    for (std::size_t rank = first; rank <= last && rank < owners.size(); ++rank) {
      ++held[owners[rank]];
    }
  }
  return held;
}

/// The largest load of a node in units of its weight's share of ranks [first, last].
inline double MaxToMean(const RingTable& table, std::size_t first = 0, std::size_t last = 0) {
  const auto held = Holdings(table, first, last);
  double all_held = 0;
  double all_weight = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    all_held += held[i];
    all_weight += static_cast<double>(table.nodes()[i].capacity_bytes);
  }
  double worst = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const double share =
        all_held * static_cast<double>(table.nodes()[i].capacity_bytes) / all_weight;
    worst = std::max(worst, held[i] / share);
  }
  return worst;
}

inline const std::string& OwnerId(const RingTable& table, std::uint32_t partition,
                                  std::size_t rank = 0) {
  return table.nodes()[table.OwnersOf(partition)[rank]].id;
}

/// How many partitions have another owner at `rank` in `after`.
inline std::uint32_t Moved(const RingTable& before, const RingTable& after, std::size_t rank = 0) {
  std::uint32_t moved = 0;
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    if (OwnerId(before, p, rank) != OwnerId(after, p, rank)) ++moved;
  }
  return moved;
}

}  // namespace forebay
