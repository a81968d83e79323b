#pragma once

#include <cstddef>

namespace forebay {

/// Connections that a coordinator or a node takes which has so many descriptors for them and for
/// what is not counted: half of them, the others are for its files and for connections of its own;
/// kMostConnections at most, kMaxConnections, as every program, at least.
std::size_t ConnectionsWithin(std::size_t descriptors);

/// The same for the descriptors that this process may have, less those that are spoken for.
std::size_t ConnectionsOfProcess(std::size_t spoken_for = 0);

}  // namespace forebay
