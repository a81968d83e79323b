#include "coordinator/token_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/trust/join_token.h"
#include "common/trust/token_record.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kPrefix = "token/";
/// Who comes with a token that has ended is told so, for a week.
constexpr std::int64_t kRememberedSeconds = std::int64_t{7} * 24 * 60 * 60;

/// Whoever proved the secret is told what is wrong with it.
Status CheckToken(const proto::TokenState& token, std::int64_t now_unix_s) {
  const std::string ask = ": ask for a new one ('forebay token create')";
  if (token.revoked()) return Fail(Code::kDenied, "token " + token.id() + " was revoked" + ask);
  if (now_unix_s >= token.ends_unix_s()) {
    return Fail(Code::kDenied, "token " + token.id() + " ended at " +
                                   DescribeTime(token.ends_unix_s()) + ", and the coordinator's " +
                                   "clock says " + DescribeTime(now_unix_s) + ask);
  }
  if (token.uses_left() == 0) {
    return Fail(Code::kDenied, "token " + token.id() + " is used up: " +
                                   std::to_string(token.uses()) + " machines joined with it" + ask);
  }
  return {};
}

Status CheckRequest(const proto::JoinRequest& request, const proto::TokenState& token,
                    std::int64_t now_unix_s) {
  if (!request.role().empty() && request.role() != token.role()) {
    const bool known = RoleOfWord(request.role()) != proto::ROLE_UNKNOWN;
    return Fail(Code::kDenied, "token " + token.id() + " is for a " + token.role() +
                                   ", and not for " +
                                   (known ? "a " + request.role() : "what was asked"));
  }
  const std::int64_t tolerance = std::chrono::seconds(kClockTolerance).count();
  if (request.clock_unix_s() < now_unix_s - tolerance ||
      request.clock_unix_s() > now_unix_s + tolerance) {
    return Fail(Code::kInvalid, "this machine's clock says " +
                                    DescribeTime(request.clock_unix_s()) +
                                    " and the coordinator's " + DescribeTime(now_unix_s) +
                                    ": set the wrong one, then join again");
  }
  if (request.id().empty()) return {};
  // A command could not name it.
  if (request.id().starts_with('-'))
    return Fail(Code::kInvalid, "'" + request.id() + "' is no id: it begins with a hyphen");
  return CheckMemberId(request.id());
}

}  // namespace

Result<Issuer> TokenBook::CheckedIssuer() const {
  Issuer issuer = issuer_();
  if (issuer.authority) return issuer;
  if (!issuer.believed.empty()) {
    return Fail(Code::kInvalid,
                "this coordinator does not hold the key of the cluster's authority, so nobody can "
                "join: put ca.key back into its trust folder");
  }
  return Fail(Code::kInvalid,
              "this coordinator holds no certificate authority, so nobody can join: make a cluster "
              "with 'forebay init' on its machine and restart it");
}

Result<proto::TokenRecord> TokenBook::Find(const std::string& id) {
  constexpr std::size_t kLongestId = 32;
  const bool is_id = id.find_first_not_of("0123456789abcdef") == std::string::npos && !id.empty() &&
                     id.size() <= kLongestId;
  Result<std::optional<std::string>> stored = std::optional<std::string>();
  if (is_id) stored = store_.Get(kPrefix + id);
  if (!stored) return Fail(stored.error());
  if (!stored->has_value()) {
    return Fail(Code::kNotFound, "this cluster has no " + (is_id ? "token " + id : "such token") +
                                     ": ask for a new one ('forebay token create')");
  }
  proto::TokenRecord record;
  Status decoded = DecodeRecord(**stored, record);
  if (!decoded) return Fail(decoded.error());
  return record;
}

Status TokenBook::Keep(const proto::TokenRecord& record) {
  StateBatch batch;
  batch.Put(kPrefix + record.token().id(), record.SerializeAsString());
  return store_.Write(batch, fence_);
}

/// Who joins believes only a coordinator whose own certificate is of the authority that it pins.
proto::TokenState TokenBook::Shown(const proto::TokenRecord& record) const {
  proto::TokenState token = record.token();
  const std::shared_ptr<const Authority> authority = issuer_().authority;
  token.set_outdated(authority && !record.authority().empty() &&
                     record.authority() != authority->certificate().KeyHash());
  return token;
}

Status TokenBook::TakeFirst(const std::string& file) {
  Result<std::string> bytes = ReadWholeFile(file);
  if (!bytes && bytes.error().code == Code::kNotFound) return {};
  if (!bytes) return Fail(bytes.error());
  proto::TokenRecord record;
  Status decoded = DecodeRecord(*bytes, record);
  if (!decoded) return Fail(decoded.error().Within(file));
  const std::scoped_lock lock(mutex_);
  // Taken before, by a coordinator that ended before it removed the file: its uses count.
  const Result<proto::TokenRecord> known = Find(record.token().id());
  if (!known && known.error().code != Code::kNotFound) return Fail(known.error());
  Status kept = known ? Status() : Keep(record);
  if (!kept) return kept;
  std::error_code error;
  std::filesystem::remove(file, error);
  if (error) {
    spdlog::warn("{} is taken over, and cannot be removed: {}; remove it", file, error.message());
  }
  return {};
}

Result<proto::CreateTokenReply> TokenBook::Create(const proto::CreateTokenRequest& request,
                                                  std::int64_t now_unix_s) {
  Result<Issuer> issuer = CheckedIssuer();
  if (!issuer) return Fail(issuer.error());
  Result<NewToken> made =
      MakeJoinToken(request, issuer->authority->certificate().KeyHash(), now_unix_s);
  if (!made) return Fail(made.error());
  const std::scoped_lock lock(mutex_);
  Status kept = Keep(made->record);
  if (!kept) return Fail(kept.error());
  proto::CreateTokenReply reply;
  *reply.mutable_token() = made->record.token();
  reply.set_text(std::string(made->text.Reveal()));
  return reply;
}

Result<std::vector<proto::TokenState>> TokenBook::All(std::int64_t now_unix_s) {
  const std::scoped_lock lock(mutex_);
  Result<std::vector<std::pair<std::string, std::string>>> rows = store_.Scan(kPrefix);
  if (!rows) return Fail(rows.error());
  std::vector<proto::TokenState> all;
  StateBatch forgotten;
  for (const auto& [key, value] : *rows) {
    proto::TokenRecord record;
    Status decoded = DecodeRecord(value, record);
    if (!decoded) return Fail(decoded.error());
    const bool old = now_unix_s - record.token().ends_unix_s() > kRememberedSeconds;
    if (old) {
      forgotten.Delete(key);
    } else {
      all.push_back(Shown(record));
    }
  }
  if (!forgotten.empty()) {
    Status written = store_.Write(forgotten, fence_);
    if (!written) return Fail(written.error());
  }
  return all;
}

Result<proto::RevokeTokenReply> TokenBook::Revoke(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  Result<proto::TokenRecord> record = Find(id);
  if (!record) return Fail(record.error());
  proto::RevokeTokenReply reply;
  reply.set_changed(!record->token().revoked());
  record->mutable_token()->set_revoked(true);
  Status kept = reply.changed() ? Keep(*record) : Status();
  if (!kept) return Fail(kept.error());
  *reply.mutable_token() = Shown(*record);
  return reply;
}

Result<proto::JoinReply> TokenBook::Redeem(const proto::JoinRequest& request,
                                           const std::string& channel, std::int64_t now_unix_s) {
  Result<Issuer> issuer = CheckedIssuer();
  if (!issuer) return Fail(issuer.error());
  if (channel.empty()) return Fail(Code::kDenied, "a machine can only join over TLS");
  const std::scoped_lock lock(mutex_);
  Result<proto::TokenRecord> record = Find(request.token_id());
  if (!record) return Fail(Code::kDenied, record.error().message);
  const Secret secret(record->secret());
  if (!SameProof(JoinProof(secret, channel, request.request()), request.proof()))
    return Fail(Code::kDenied, "the secret of token " + request.token_id() +
                                   " was not proved: copy the " +
                                   "whole token, or ask for a new one ('forebay token create')");
  proto::TokenState& token = *record->mutable_token();
  Status good = CheckToken(token, now_unix_s);
  if (good) good = CheckRequest(request, token, now_unix_s);
  if (!good) return Fail(good.error());
  Identity member{.cluster = cluster_, .role = RoleOfWord(token.role()), .id = request.id()};
  constexpr std::size_t kShortId = 8;
  if (member.id.empty())
    member.id = token.role() + "-" + Uuid::Random().ToString().substr(0, kShortId);
  std::optional<std::vector<std::string>> links;
  if (token.links_size() > 0) links.emplace(token.links().begin(), token.links().end());
  const std::chrono::seconds lifetime =
      links ? std::min<std::chrono::seconds>(issuer->lifetime, kGrantLifetime) : issuer->lifetime;
  Result<Certificate> issued = issuer->authority->Issue(
      request.request(), member,
      Validity::From(IssueTime(issuer->revoked, member, now_unix_s), lifetime), links);
  if (!issued) return Fail(issued.error());
  token.set_uses_left(token.uses_left() - 1);
  Status kept = Keep(*record);
  if (!kept) return Fail(kept.error());
  spdlog::info("{} joins with token {}", NameOf(member), token.id());
  proto::JoinReply reply;
  reply.set_certificate(issued->ToPem());
  reply.set_authorities(issuer->believed);
  return reply;
}

}  // namespace forebay
