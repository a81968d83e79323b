#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/wire/server.h"
#include "coordinator/cache_census.h"
#include "coordinator/fill_budget.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/namespace_index.h"
#include "coordinator/pin_book.h"
#include "coordinator/pin_keeper.h"
#include "coordinator/stats.h"
#include "coordinator/target_lookup.h"

namespace forebay {

/// What administrators decide about the cache: its brakes, pins, quotas,
/// priorities and copies.
class PolicyService {
 public:
  struct Parts {
    ClusterMembers& membership;
    FillBudget& budget;
    LinkRegistry& links;
    NamespaceIndex& index;
    CacheCensus& census;
    PinBook& pins;
    PinKeeper& keeper;
    ClusterStats& stats;
    Offload& offload;
  };
  explicit PolicyService(Parts parts) : parts_(parts) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> SetFillLimits(RpcCall call);
  Task<Result<RpcReply>> Pin(RpcCall call);
  Task<Result<RpcReply>> Unpin(RpcCall call);
  Task<Result<RpcReply>> ListPins(RpcCall call);
  Task<Result<RpcReply>> SetQuota(RpcCall call);
  Task<Result<RpcReply>> SetPriority(RpcCall call);
  Task<Result<RpcReply>> SetReplicas(RpcCall call);

  Status CheckLease(const proto::PinRequest& request) const;
  /// kInvalid with both numbers when `wanted`, a pin for each of `targets`, do not fit beside the
  /// other pins.
  Task<Status> CheckRoom(LocatedTargets targets, std::vector<proto::PinRecord> wanted);
  Task<Result<proto::PinRecord>> MeasuredPin(LocatedTarget target, proto::PinRequest request);
  Task<Result<proto::PinState>> SumOfPins(LocatedTargets targets,
                                          std::vector<proto::PinRecord> wanted, Deadline deadline);
  /// The links that a name means: itself, or the parts of a set.
  Result<std::vector<LinkSpec>> Named(const std::string& name) const;
  using LinkChange = std::function<void(LinkSpec& spec, std::uint64_t version)>;
  Task<Status> Decide(Uuid id, LinkChange change);
  Status CheckQuota(const LinkSpec& link, std::vector<proto::PinRecord> pins) const;
  std::uint64_t PinnedBytesOf(const Uuid& link) const;
  /// Tells the nodes what was decided about links; those that do not know it yet.
  Task<std::vector<std::string>> TellLinks(Deadline deadline);
  /// As well the blocks of these links that are pinned.
  Task<std::vector<std::string>> TellPins(std::vector<Uuid> links, Deadline deadline);
  Task<Result<proto::PinState>> StateOf(proto::PinRecord pin, Deadline deadline);

  Parts parts_;
};

}  // namespace forebay
