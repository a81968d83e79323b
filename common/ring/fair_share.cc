#include "common/ring/fair_share.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "common/model/limits.h"

namespace forebay {
namespace {

// Sums of byte counts times 65,536 pass 64 bits.
using Wide = unsigned __int128;

// A node that could take one of the partitions that rounding down left over.
struct Taker {
  std::size_t node;
  std::uint64_t weight;
  std::uint32_t rounded_up;
  bool keeps;
};

}  // namespace

std::vector<std::uint32_t> FairShares(std::span<const std::uint64_t> weights,
                                      std::span<const std::uint32_t> held) {
  Wide total = 0;
  for (const std::uint64_t weight : weights) total += weight;

  std::vector<std::uint32_t> shares(weights.size(), 0);
  std::vector<Taker> takers;
  std::uint32_t left = kPartitions;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Wide exact = Wide{kPartitions} * weights[i];  // in units of 1/total
    shares[i] = static_cast<std::uint32_t>(exact / total);
    left -= shares[i];
    if (exact % total == 0) continue;
    const std::uint32_t up = shares[i] + 1;
    const bool light = Wide{up} * total * 100 <= exact * 101;
    takers.push_back(Taker{i, weights[i], up, light && held[i] >= up});
  }
  std::ranges::sort(takers, [](const Taker& a, const Taker& b) {
    if (a.keeps != b.keeps) return a.keeps;
    // a.rounded_up / a.weight < b.rounded_up / b.weight, without a division.
    const Wide load_a = Wide{a.rounded_up} * b.weight;
    const Wide load_b = Wide{b.rounded_up} * a.weight;
    return std::tie(load_a, a.node) < std::tie(load_b, b.node);
  });
  // Fewer are left than there are takers: each remainder is below one partition.
  for (std::uint32_t i = 0; i < left; ++i) ++shares[takers[i].node];
  return shares;
}

}  // namespace forebay
