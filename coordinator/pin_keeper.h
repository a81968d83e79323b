#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/base/wall_clock.h"
#include "common/model/membership.h"
#include "coordinator/link_registry.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_calls.h"
#include "coordinator/pin_book.h"

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
    Offload& offload;
    std::function<std::vector<NodeInfo>()> up_nodes;
    /// ClusterStats::NodePins and JobIdle.
    std::function<std::map<Uuid, std::uint64_t>(const std::string& node_id)> node_pins;
    std::function<std::optional<Duration>(const std::string& job)> job_idle;
    std::function<TimePoint()> now = Clock::now;
    std::function<std::int64_t()> unix_s = UnixSeconds;
  };
  explicit PinKeeper(Parts parts) : parts_(std::move(parts)), started_(parts_.now()) {}

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
