#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/model/object_version.h"
#include "common/wire/server.h"
#include "coordinator/changed_files.h"
#include "coordinator/doubled_nodes.h"
#include "coordinator/fill_budget.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/request_budgets.h"
#include "coordinator/stats.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What cache nodes ask of the coordinator: to be members, once a second to be counted, and the
/// links they serve.
class NodeService {
 public:
  /// `is_outdated`: nodes have said before this start that there is a newer coordinator.
  NodeService(Uuid cluster, Fence fence, bool is_outdated, const MembershipTimes& times,
              ClusterMembers& membership, LinkRegistry& links, ClusterStats& stats,
              FillBudget& budget, RequestBudgets& requests, ChangedFiles& changed)
      : cluster_(cluster),
        fence_(fence),
        has_heard_of_newer_(is_outdated),
        membership_(membership),
        links_(links),
        stats_(stats),
        budget_(budget),
        requests_(requests),
        changed_(changed),
        doubled_(times.doubled_after, times.doubled_for) {}

  std::vector<MethodEntry> Methods();
  /// That nodes follow another coordinator than this one, or refuse what this one asks, or go by
  /// one id. On the event loop.
  std::vector<proto::Alert> Alerts(TimePoint now, std::int64_t now_unix_s) const;
  /// How a node took a request of this coordinator: it refused it because of `why`, or not. On the
  /// event loop.
  void NoteDenied(const std::string& node, const std::string& why);
  void NoteObeyed(const std::string& node) { denied_.erase(node); }
  /// Whether any node has ever said that there is a newer coordinator. On the event loop.
  bool HasHeardOfNewer() const { return has_heard_of_newer_; }

 private:
  /// A node's word that it has heard of a newer coordinator.
  struct Newer {
    Fence heard;
    TimePoint since;
    TimePoint last;
  };
  /// A node's refusal of what this coordinator asked.
  struct Denied {
    std::string why;
    TimePoint since;
    TimePoint last;
  };
  Status CheckFence(const std::string& node, const Fence& heard);
  void AddOutdated(TimePoint now, std::int64_t now_unix_s, std::vector<proto::Alert>& alerts) const;
  void AddDenied(TimePoint now, std::int64_t now_unix_s, std::vector<proto::Alert>& alerts) const;
  Task<Result<RpcReply>> Register(RpcCall call);
  Task<Result<RpcReply>> Heartbeat(RpcCall call);
  void NoteRefusal(const NodeInfo& node, std::uint64_t incarnation, const Error& why);

  const Uuid cluster_;
  const Fence fence_;
  bool has_heard_of_newer_;
  ClusterMembers& membership_;
  LinkRegistry& links_;
  ClusterStats& stats_;
  FillBudget& budget_;
  RequestBudgets& requests_;
  ChangedFiles& changed_;
  std::map<std::string, Newer> newer_;          // by node id
  std::map<std::string, Denied> denied_;        // by node id
  std::map<std::string, std::string> refused_;  // why, by node id: it asks every second, said once
  DoubledNodes doubled_;
};

}  // namespace forebay
