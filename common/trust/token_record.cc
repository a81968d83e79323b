#include "common/trust/token_record.h"

#include <algorithm>
#include <utility>

#include "common/trust/authority.h"
#include "common/trust/identity.h"
#include "common/trust/join_token.h"

namespace forebay {
namespace {

constexpr std::uint32_t kMostUses = 100'000;

Status CheckLinks(const proto::CreateTokenRequest& request) {
  if (request.links().empty()) return {};
  if (RoleOfWord(request.role()) != proto::ROLE_CLIENT)
    return Fail(Code::kInvalid,
                "--links is for tokens of clients: what others may see and do has no bounds");
  if (static_cast<std::size_t>(request.links_size()) > kMaxGrantedLinks) {
    return Fail(Code::kInvalid,
                "a token is for at most " + std::to_string(kMaxGrantedLinks) + " links");
  }
  const bool named = std::ranges::none_of(request.links(), [](const std::string& link) {
    return link.empty() || link.find(',') != std::string::npos;
  });
  return named ? Status() : Fail(Code::kInvalid, "a link's name is empty or has a comma");
}

}  // namespace

bool Joins(proto::Role role) {
  return role == proto::ROLE_CLIENT || role == proto::ROLE_NODE || role == proto::ROLE_ADMIN ||
         role == proto::ROLE_VIEWER;
}

Result<NewToken> MakeJoinToken(const proto::CreateTokenRequest& request,
                               const std::string& authority_hash, std::int64_t now_unix_s) {
  if (!Joins(RoleOfWord(request.role())))
    return Fail(Code::kInvalid, "a token is for a client, a node, an admin or a viewer");
  if (request.uses() == 0 || request.uses() > kMostUses)
    return Fail(Code::kInvalid, "a token is good for 1 to 100,000 machines");
  if (request.valid_s() == 0 || request.valid_s() > kLongestTokenSeconds)
    return Fail(Code::kInvalid, "a token is good for 1 second to 30 days");
  Status granted = CheckLinks(request);
  if (!granted) return Fail(granted.error());
  const JoinToken token = JoinToken::New(authority_hash);
  NewToken made{.record = {}, .text = token.ToText()};
  proto::TokenState& state = *made.record.mutable_token();
  state.set_id(token.id);
  state.set_role(request.role());
  state.set_uses(request.uses());
  state.set_uses_left(request.uses());
  *state.mutable_links() = request.links();
  state.set_ends_unix_s(now_unix_s + request.valid_s());
  made.record.set_authority(authority_hash);
  made.record.set_secret(std::string(token.secret.Reveal()));
  return made;
}

}  // namespace forebay
