#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "coordinator/copy_run.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_calls.h"

namespace forebay {

/// Sees to it that each cached block of a link with replicas is at as many of its owners (ADR
/// 0024). The nodes copy what they fetch by themselves; this looks for what is missing all the
/// same: after each change of the ring, of the nodes that are up, of a link's replicas or listing,
/// and every ten minutes. Where copies could not be made it looks again, ever later. Methods run on
/// the io_context of `call`; StateOf on any thread.
class CopyKeeper {
 public:
  struct Parts {
    LinkRegistry& links;
    NamespaceIndex& index;
    ClusterMembers& membership;
    NodeCaller call;
    Offload& offload;
  };
  explicit CopyKeeper(Parts parts) : parts_(std::move(parts)) {}

  /// Called about once a second: looks when that is due, and then takes as long as it takes.
  Task<void> Tick();
  /// A look that runs ends soon.
  void Stop() { stopped_ = true; }

  /// What the last look at a link has left.
  struct State {
    std::int64_t looked_unix_s = 0;
    std::uint64_t missing = 0;  ///< Copies that are not there, of blocks that are cached.
    std::string why;            ///< "" = no room, or no node for them.
  };
  /// Nothing: the link has no replicas, or nobody has looked yet.
  std::optional<State> StateOf(const Uuid& link) const;

  /// One look at the blocks of `plan`.
  Task<Result<CopyCounts>> Look(LinkSpec link, std::shared_ptr<const PreloadPlan> plan,
                                std::function<bool()> stopped);

 private:
  /// What a look depends on: when it changes, the next one is due.
  using LinkFacts = std::tuple<Uuid, std::uint32_t, std::uint64_t>;  // id, replicas, generation
  struct Facts {
    std::uint64_t epoch = 0;
    std::vector<std::string> up;
    std::vector<LinkFacts> links;

    bool operator==(const Facts&) const = default;
  };
  Facts Now() const;
  std::vector<Link> Replicated() const;
  /// True: all copies are there, as far as there is room.
  Task<bool> LookAt(Link link);
  Result<std::shared_ptr<const PreloadPlan>> PlanOf(const Link& link) const;
  void Note(const Uuid& link, State state);

  Parts parts_;
  std::atomic<bool> stopped_{false};
  Facts seen_;
  bool looked_ = false;
  TimePoint next_;    // the latest
  Duration pause_{};  // before the next try
  mutable std::mutex mutex_;
  std::map<Uuid, State> states_;  // guarded
};

}  // namespace forebay
