#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/model/object_version.h"
#include "common/wire/server.h"
#include "coordinator/cache_census.h"
#include "coordinator/changed_files.h"
#include "coordinator/copy_keeper.h"
#include "coordinator/explainer.h"
#include "coordinator/fill_budget.h"
#include "coordinator/link_registry.h"
#include "coordinator/linker.h"
#include "coordinator/membership.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_service.h"
#include "coordinator/request_budgets.h"
#include "coordinator/stats.h"
#include "coordinator/target_lookup.h"
#include "coordinator/task_book.h"
#include "coordinator/trust_book.h"

namespace forebay {

/// What the CLI asks of the coordinator.
class AdminService {
 public:
  struct Parts {
    Uuid cluster;
    ClusterMembers& membership;
    LinkRegistry& links;
    FillBudget& budget;
    const RequestBudgets& requests;
    const ChangedFiles& changed;
    TaskBook& tasks;
    Linker& linker;
    NamespaceIndex& index;
    const NodeService& nodes;
    CacheCensus& census;
    const CopyKeeper& copies;
    Explainer& explainer;
    ClusterStats& stats;
    const TrustBook& certificates;
    Offload& offload;
  };
  explicit AdminService(Parts parts);

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> StartLink(RpcCall call);
  Task<Result<RpcReply>> Unlink(RpcCall call);
  Task<Result<RpcReply>> ListTarget(RpcCall call);
  Task<Result<RpcReply>> CheckTarget(RpcCall call);
  Task<Result<RpcReply>> EvictTarget(RpcCall call);
  Task<Result<RpcReply>> Explain(RpcCall call);
  Task<Result<RpcReply>> Stats(RpcCall call);
  Task<Result<RpcReply>> Refresh(RpcCall call);
  Task<Result<proto::RefreshReply>> RefreshParts(std::vector<LinkSpec> parts);

  Result<LocatedTargets> Locate(const std::string& target) const;
  Task<Result<proto::ListTargetReply>> ListParts(LocatedTargets parts,
                                                 proto::ListTargetRequest request,
                                                 Deadline deadline);
  Task<Result<proto::CheckTargetReply>> CheckOne(LocatedTarget target, bool verify, Roster roster,
                                                 Deadline deadline);
  /// kInvalid, with the jobs' names, while any reads a link that is to be removed.
  Status CheckNobodyReads(const std::vector<Link>& links) const;
  /// kInvalid while a job reads what is to be evicted.
  Status CheckUnread(const LinkSpec& link) const;
  Task<Result<proto::EvictTargetReply>> EvictOne(LocatedTarget target, EvictRules rules,
                                                 Roster nodes, Deadline deadline);

  Parts parts_;
  const std::int64_t started_unix_s_;
};

}  // namespace forebay
