#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forebay {

/// How many of the kPartitions each node should own: its weight's exact share, rounded down or up
/// to a whole partition, kPartitions in all. Rounded up are those whom the extra partition
/// overloads least, so that the largest load is as small as it can be; but a node that `held` its
/// rounded-up share keeps it where that is an overload of 1 % at most, because moving it would only
/// cost a refetch. Weight 0 owns nothing; at least one weight is positive. Integer arithmetic: the
/// same everywhere.
std::vector<std::uint32_t> FairShares(std::span<const std::uint64_t> weights,
                                      std::span<const std::uint32_t> held);

}  // namespace forebay
