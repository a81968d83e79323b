#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "common/base/offload.h"
#include "common/wire/server.h"
#include "coordinator/join_brake.h"
#include "coordinator/link_registry.h"
#include "coordinator/token_book.h"
#include "coordinator/trust_book.h"

namespace forebay {

/// How machines become members, stay so and cease to be: tokens for administrators, certificates
/// for who has one or the other.
class TrustService {
 public:
  struct Parts {
    TokenBook& tokens;
    TrustBook& members;
    LinkRegistry& links;
    Offload& offload;
    /// Who must follow a change of the authority. Blocks.
    std::function<Result<TrustBook::Expected>()> expected;
  };
  explicit TrustService(Parts parts)
      : tokens_(parts.tokens),
        members_(parts.members),
        links_(parts.links),
        offload_(parts.offload),
        expected_(std::move(parts.expected)) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> Join(RpcCall call);
  Task<Result<proto::JoinReply>> Redeem(const RpcCall& call);
  void AuditJoin(const RpcCall& call, const Status& outcome);
  Task<Result<RpcReply>> CreateToken(RpcCall call);
  Task<Result<RpcReply>> ListTokens(RpcCall call);
  Task<Result<RpcReply>> RevokeToken(RpcCall call);
  Task<Result<RpcReply>> Renew(RpcCall call);
  Task<Result<RpcReply>> ListMembers(RpcCall call);
  Task<Result<RpcReply>> RevokeMember(RpcCall call);

  TokenBook& tokens_;
  TrustBook& members_;
  LinkRegistry& links_;
  Offload& offload_;
  const std::function<Result<TrustBook::Expected>()> expected_;
  JoinBrake brake_{Clock::now()};  // on the event loop
};

}  // namespace forebay
