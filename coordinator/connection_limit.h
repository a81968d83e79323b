#pragma once

#include <cstddef>

namespace forebay {

/// Connections that a coordinator with so many descriptors takes: half of them, the others are for
/// its files and for connections of its own; kMaxCoordinatorConnections at most, kMaxConnections,
/// as every program, at least.
std::size_t ConnectionsWithin(std::size_t descriptors);

/// The same for the descriptors that this process may have.
std::size_t CoordinatorConnections();

}  // namespace forebay
