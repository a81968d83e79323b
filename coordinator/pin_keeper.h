#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_calls.h"
#include "coordinator/pin_book.h"
#include "coordinator/stats.h"

namespace forebay {

/// Keeps the nodes' pins as the book has them: tells a node that has other ones than the link's
/// pins_version (it is new, was away, lost its index, or the pins or the generation changed), and
/// ends pins whose time or job is over. On the event loop that the calls belong to.
class PinKeeper {
 public:
  struct Parts {
    NodeCaller call;
    PinBook& pins;
    LinkRegistry& links;
    NamespaceIndex& index;
    ClusterMembers& membership;
    ClusterStats& stats;
    Offload& offload;
  };
  explicit PinKeeper(Parts parts) : parts_(std::move(parts)), started_(Clock::now()) {}

  /// Once a second, one at a time.
  Task<void> Tick();

  /// Tells `nodes` now; the ids of those that did not take it over.
  Task<std::vector<std::string>> Tell(Uuid link, std::vector<NodeInfo> nodes, Deadline deadline);

 private:
  struct Work {
    Uuid link;
    std::vector<NodeInfo> nodes;
  };
  Task<void> EndPins();
  bool IsOver(const proto::PinRecord& pin) const;
  std::vector<Work> Behind();
  Task<void> Measure(Uuid link);

  class Turn;

  Parts parts_;
  const TimePoint started_;
  std::set<Uuid> telling_;  ///< Links of which a take-over runs: one at a time.
  Notifier told_all_;
  /// What was told lately, until the node's heartbeat shows it.
  std::map<std::pair<std::string, Uuid>, std::pair<std::uint64_t, TimePoint>> told_;
};

}  // namespace forebay
