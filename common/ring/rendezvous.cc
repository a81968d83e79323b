#include "common/ring/rendezvous.h"

#define XXH_INLINE_ALL  // one call per node and partition: 65 million for a table of 1,000 nodes
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace forebay {
namespace {

using Wide = unsigned __int128;

constexpr int kLogBits = 32;       // fraction bits of a logarithm
constexpr int kLogTableBits = 10;  // 1024 steps, interpolated: good to 2e-7
constexpr int kWeightBits = 20;
// Beyond this ratio of weights a node has no partition to win any more.
constexpr std::uint64_t kMaxInverseWeight = std::uint64_t{1} << 44;

// log2(1 + i/1024), kLogBits of fraction, by squaring: each square that passes 2 is a one bit.
std::vector<std::uint64_t> Log2Table() {
  std::vector<std::uint64_t> table;
  for (std::uint64_t i = 0; i < (1U << kLogTableBits); ++i) {
    constexpr std::uint64_t kOne = std::uint64_t{1} << 62;
    std::uint64_t x = kOne + (i << (62 - kLogTableBits));
    std::uint64_t log = 0;
    for (int bit = 0; bit < kLogBits; ++bit) {
      x = static_cast<std::uint64_t>((Wide{x} * x) >> 62);
      log <<= 1;
      if (x >= 2 * kOne) {
        log |= 1;
        x >>= 1;
      }
    }
    table.push_back(log);
  }
  table.push_back(std::uint64_t{1} << kLogBits);
  return table;
}

// -log2(hash / 2^64) with kLogBits of fraction.
std::uint64_t NegativeLog2(std::uint64_t hash, std::span<const std::uint64_t> table) {
  hash |= 1;
  const int zeros = std::countl_zero(hash);
  const std::uint64_t mantissa = hash << zeros;  // 1.xxx, the point after the top bit
  const std::size_t step = (mantissa >> (63 - kLogTableBits)) & ((1U << kLogTableBits) - 1);
  const std::uint64_t between = (mantissa >> (63 - kLogTableBits - 32)) & 0xFFFFFFFF;
  const std::uint64_t log = table[step] + (((table[step + 1] - table[step]) * between) >> 32);
  return ((static_cast<std::uint64_t>(zeros) + 1) << kLogBits) - log;
}

}  // namespace

Rendezvous::Rendezvous(std::span<const NodeInfo> nodes, std::span<const std::uint64_t> weights) {
  static const std::vector<std::uint64_t> kLog2 = Log2Table();
  log2_ = kLog2;
  const Wide largest = weights.empty() ? 0 : *std::ranges::max_element(weights);
  entries_.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Wide inverse =
        weights[i] == 0 ? kMaxInverseWeight : (largest << kWeightBits) / weights[i];
    entries_.push_back(Entry{
        XXH3_64bits(nodes[i].id.data(), nodes[i].id.size()),
        static_cast<std::uint64_t>(std::min<Wide>(inverse, kMaxInverseWeight)),
    });
  }
}

std::uint64_t Rendezvous::Cost(std::uint32_t partition, std::size_t node) const {
  const Entry& entry = entries_[node];
  const std::uint64_t draw = XXH3_64bits_withSeed(&entry.id_hash, sizeof(entry.id_hash), partition);
  // An exponential variate of rate `weight`: the minimum of such draws is weighted rendezvous.
  return static_cast<std::uint64_t>((Wide{NegativeLog2(draw, log2_)} * entry.inverse_weight) >>
                                    kWeightBits);
}

}  // namespace forebay
