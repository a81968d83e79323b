#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forebay {

/// The two clocks of membership (DESIGN 6.10): suspect = silent for Tn, readers skip it and the
/// table stays; out = no longer in the table.
enum class NodeState : std::uint8_t { kUp = 0, kSuspect = 1, kDraining = 2, kOut = 3 };

/// What an administrator decides about a node. The values travel on the wire and never change.
enum class NodeChange : std::uint8_t { kRemove = 1, kFence = 2, kDrain = 3, kUndrain = 4 };

/// Why a node that is out stays out although its process lives. The values are persisted, travel
/// on the wire and never change their meaning.
enum class Dismissal : std::uint8_t {
  kNone = 0,     ///< In the ring, or out because it was silent: it may come back any time.
  kRemoved = 1,  ///< `node remove`: this process may not come back, its next one may.
  kDrained = 2,  ///< The end of a drain; likewise.
  kFenced = 3,   ///< `node fence`: no process may come back before the fence is lifted.
};

/// One cache node as every other program knows it.
struct NodeInfo {
  std::string id;            ///< Stable over restarts; kept in the node's first cache directory.
  std::string address;       ///< "host:port" for remote peers.
  std::string local_socket;  ///< UNIX socket path, usable where `host_id` is the reader's own; may
                             ///< be empty.
  std::string
      host_id;  ///< The machine's boot-independent identity (/etc/machine-id), "" if unknown.
  std::string zone;
  std::uint64_t capacity_bytes = 0;  ///< Its weight in the ring.
  NodeState state = NodeState::kUp;

  bool operator==(const NodeInfo&) const = default;
};

/// The members of one ring epoch; index = NodeIndex of the ring table.
struct Membership {
  std::uint64_t ring_epoch = 0;
  std::vector<NodeInfo> nodes;
};

}  // namespace forebay
