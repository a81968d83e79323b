#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/membership.h"

namespace forebay {

/// Weighted rendezvous hashing: each node draws a cost for each partition, and the lowest cost wins
/// with a probability in proportion to the node's weight. A draw depends on the partition and on
/// the node's id and relative weight alone, so other nodes coming and going do not change the order
/// of those that stay. Integer arithmetic: the same everywhere.
class Rendezvous {
 public:
  /// `weights` has one entry per node; those of weight 0 must not be asked for.
  Rendezvous(std::span<const NodeInfo> nodes, std::span<const std::uint64_t> weights);

  /// The cost of `partition` at node number `node`; the lowest wins.
  std::uint64_t Cost(std::uint32_t partition, std::size_t node) const;

 private:
  struct Entry {
    std::uint64_t id_hash;
    std::uint64_t inverse_weight;  // the largest weight / this weight, times 2^20
  };
  std::vector<Entry> entries_;
  std::span<const std::uint64_t> log2_;  // see NegativeLog2
};

}  // namespace forebay
