#pragma once

#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/wire/server.h"
#include "coordinator/drainer.h"
#include "coordinator/membership.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What an administrator decides about nodes: remove, fence, drain, undrain. Each decision is one
/// line of the audit, also when it is refused.
class MemberService {
 public:
  MemberService(ClusterMembers& membership, Drainer& drainer)
      : membership_(membership), drainer_(drainer) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> ChangeNode(RpcCall call);
  Task<Result<proto::ChangeNodeReply>> Change(proto::ChangeNodeRequest request);
  Task<Result<proto::ChangeNodeReply>> StartDrain(std::string node);

  ClusterMembers& membership_;
  Drainer& drainer_;
};

}  // namespace forebay
