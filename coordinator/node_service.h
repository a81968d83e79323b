#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/model/object_version.h"
#include "common/wire/server.h"
#include "coordinator/changed_files.h"
#include "coordinator/fill_budget.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/request_budgets.h"
#include "coordinator/stats.h"

namespace forebay {

/// What cache nodes ask of the coordinator: to be members, once a second to be counted, and the
/// links they serve.
class NodeService {
 public:
  NodeService(Uuid cluster, ClusterMembers& membership, LinkRegistry& links, ClusterStats& stats,
              FillBudget& budget, RequestBudgets& requests, ChangedFiles& changed)
      : cluster_(cluster),
        membership_(membership),
        links_(links),
        stats_(stats),
        budget_(budget),
        requests_(requests),
        changed_(changed) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> Register(RpcCall call);
  Task<Result<RpcReply>> Heartbeat(RpcCall call);
  void NoteRefusal(const NodeInfo& node, const std::string& why);

  const Uuid cluster_;
  ClusterMembers& membership_;
  LinkRegistry& links_;
  ClusterStats& stats_;
  FillBudget& budget_;
  RequestBudgets& requests_;
  ChangedFiles& changed_;
  std::map<std::string, std::string> refused_;  // why, by node id: it asks every second, said once
};

}  // namespace forebay
