#include "common/trust/token_record.h"

#include <utility>

#include "common/trust/identity.h"
#include "common/trust/join_token.h"

namespace forebay {
namespace {

constexpr std::uint32_t kMostUses = 100'000;

bool Joins(proto::Role role) {
  return role == proto::ROLE_CLIENT || role == proto::ROLE_NODE || role == proto::ROLE_ADMIN;
}

}  // namespace

Result<NewToken> MakeJoinToken(const proto::CreateTokenRequest& request,
                               const std::string& authority_hash, std::int64_t now_unix_s) {
  if (!Joins(RoleOfWord(request.role())))
    return Fail(Code::kInvalid, "a token is for a client, a node or an admin");
  if (request.uses() == 0 || request.uses() > kMostUses)
    return Fail(Code::kInvalid, "a token is good for 1 to 100,000 machines");
  if (request.valid_s() == 0 || request.valid_s() > kLongestTokenSeconds)
    return Fail(Code::kInvalid, "a token is good for 1 second to 30 days");
  const JoinToken token = JoinToken::New(authority_hash);
  NewToken made{.record = {}, .text = token.ToText()};
  proto::TokenState& state = *made.record.mutable_token();
  state.set_id(token.id);
  state.set_role(request.role());
  state.set_uses(request.uses());
  state.set_uses_left(request.uses());
  state.set_ends_unix_s(now_unix_s + request.valid_s());
  made.record.set_secret(std::string(token.secret.Reveal()));
  return made;
}

}  // namespace forebay
