#include "coordinator/trust_service.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/model/limits.h"
#include "common/wire/audit.h"
#include "common/wire/rpc_rules.h"

namespace forebay {

std::vector<MethodEntry> TrustService::Methods() {
  std::vector<MethodEntry> methods;
  const auto add = [&](Method method, auto handler) {
    methods.push_back(
        {method, [this, handler](RpcCall call) { return (this->*handler)(std::move(call)); }});
  };
  add(Method::kJoin, &TrustService::Join);
  add(Method::kCreateToken, &TrustService::CreateToken);
  add(Method::kListTokens, &TrustService::ListTokens);
  add(Method::kRevokeToken, &TrustService::RevokeToken);
  add(Method::kRenew, &TrustService::Renew);
  add(Method::kListMembers, &TrustService::ListMembers);
  add(Method::kRevokeMember, &TrustService::RevokeMember);
  return methods;
}

Task<Result<RpcReply>> TrustService::Join(RpcCall call) {
  if (!brake_.MayAsk(Clock::now())) {
    const Error later{Code::kOverloaded, "too many machines ask to join: try again in a moment"};
    AuditJoin(call, Fail(later));
    co_return Fail(later);
  }
  Result<proto::JoinReply> reply = co_await Redeem(call);
  AuditJoin(call, reply ? Status() : Fail(reply.error()));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<proto::JoinReply>> TrustService::Redeem(const RpcCall& call) {
  proto::JoinRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto redeem = [this, request, channel = call.peer.channel,
                 address = call.peer.address]() -> Result<proto::JoinReply> {
    Result<proto::JoinReply> reply = tokens_.Redeem(request, channel, UnixSeconds());
    const auto issued = reply ? Certificate::FromPem(reply->certificate())
                              : Result<Certificate>(Fail(reply.error()));
    if (issued) members_.NoteJoined(*issued, address);
    return reply;
  };
  Result<proto::JoinReply> reply = co_await offload_.Run(std::move(redeem));
  co_return reply;
}

/// Whoever joins has a line of the audit; those who may not could fill the disk with theirs.
void TrustService::AuditJoin(const RpcCall& call, const Status& outcome) {
  const std::optional<std::uint64_t> unsaid =
      outcome ? std::optional<std::uint64_t>(0) : brake_.MaySay(Clock::now());
  if (!unsaid) return;
  std::string what = DescribeAudited(*RuleOf(Method::kJoin), call.peer, call.message);
  if (*unsaid > 0) what += fmt::format(" (and {} like it that have no line)", *unsaid);
  LogAudited(what, outcome ? Result<RpcReply>() : Fail(outcome.error()));
}

Task<Result<RpcReply>> TrustService::CreateToken(RpcCall call) {
  proto::CreateTokenRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  for (const std::string& link : request.links()) {
    if (!links_.PartsOf(link).empty()) continue;
    Result<Link> found = links_.Find(link);
    if (!found) co_return Fail(found.error());
  }
  auto create = [this, request] { return tokens_.Create(request, UnixSeconds()); };
  Result<proto::CreateTokenReply> reply = co_await offload_.Run(std::move(create));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> TrustService::ListTokens(RpcCall call) {
  proto::ListTokensRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto list = [this] { return tokens_.All(UnixSeconds()); };
  Result<std::vector<proto::TokenState>> all = co_await offload_.Run(std::move(list));
  if (!all) co_return Fail(all.error());
  proto::ListTokensReply reply;
  for (proto::TokenState& token : *all) *reply.add_tokens() = std::move(token);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> TrustService::RevokeToken(RpcCall call) {
  proto::RevokeTokenRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto revoke = [this, id = request.id()] { return tokens_.Revoke(id); };
  Result<proto::RevokeTokenReply> reply = co_await offload_.Run(std::move(revoke));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> TrustService::Renew(RpcCall call) {
  proto::RenewRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto renew = [this, request, peer = call.peer] {
    return members_.Renew(request, peer, UnixSeconds());
  };
  Result<proto::RenewReply> reply = co_await offload_.Run(std::move(renew));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> TrustService::ListMembers(RpcCall call) {
  proto::ListMembersRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto list = [this]() -> Result<proto::ListMembersReply> {
    proto::ListMembersReply reply;
    for (proto::MemberState& member : members_.Members()) {
      if (reply.members_size() == kMaxRepeatedFields) break;
      *reply.add_members() = std::move(member);
    }
    const Result<TrustBook::Expected> expected = expected_();
    // Who stands by is not known then: nothing is said of how far a change has come.
    if (expected) members_.DescribeRotation(*expected, Clock::now(), reply);
    return reply;
  };
  const Result<proto::ListMembersReply> reply = co_await offload_.Run(std::move(list));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> TrustService::RevokeMember(RpcCall call) {
  proto::RevokeMemberRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto revoke = [this, request, peer = call.peer] {
    return members_.Revoke(request, peer, UnixSeconds());
  };
  Result<proto::RevokeMemberReply> reply = co_await offload_.Run(std::move(revoke));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

}  // namespace forebay
