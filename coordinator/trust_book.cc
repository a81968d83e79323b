#include "coordinator/trust_book.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/model/alert.h"
#include "common/trust/join_token.h"
#include "common/trust/renewal.h"
#include "common/trust/token_record.h"

namespace forebay {
namespace {

constexpr const char* kRevokedKey = "trust/revoked";
/// Viewers have a list of their own, which no other member hears of: a release that knows no such
/// role refuses a list with one in it whole, a coordinator here and a member in an answer. Nobody
/// but a coordinator answers a viewer (rpc_rules.h).
constexpr const char* kRevokedViewersKey = "trust/revoked_viewers";
constexpr std::int64_t kRememberedSeconds = std::int64_t{31} * 24 * 60 * 60;
/// A member that was seen so long ago is gone; what it needs is no alert.
constexpr std::int64_t kHereSeconds = std::chrono::seconds(TrustBook::kAwayAfter).count();
/// A program asks every 5 s, and waits for 5 s where an address of a coordinator hangs.
constexpr std::chrono::seconds kAllHaveAsked{30};
constexpr std::size_t kMostAlerts = 100;
constexpr int kMostLaggards = 100;
constexpr std::size_t kMostSeen = 65'536;

Error NoAuthority() {
  return Error{Code::kInvalid,
               "this coordinator does not hold the key of the cluster's authority, so no "
               "certificate is renewed: put ca.key back into its trust folder"};
}

void NoteLaggard(const std::string& who, bool running, proto::Laggards& laggards) {
  if (running) {
    laggards.set_all_running(laggards.all_running() + 1);
    if (laggards.running_size() < kMostLaggards) laggards.add_running(who);
  } else {
    laggards.set_all_away(laggards.all_away() + 1);
    if (laggards.away_size() < kMostLaggards) laggards.add_away(who);
  }
}

bool IsOfViewer(const Revocation& each) { return each.role == proto::ROLE_VIEWER; }

std::string TextOfViewers(std::vector<Revocation> revoked) {
  std::erase_if(revoked, std::not_fn(IsOfViewer));
  return TextOf(revoked);
}

std::string TextOfOthers(std::vector<Revocation> revoked) {
  std::erase_if(revoked, IsOfViewer);
  return TextOf(revoked);
}

/// Until then a certificate that was issued when the member was revoked may be shown.
std::int64_t ForgottenAt(const Revocation& revocation) {
  return revocation.until_unix_s + std::chrono::seconds(kLongestMemberLifetime + kGrace).count();
}

proto::Alert CertificateAlert(const std::string& who, std::int64_t since, std::int64_t ends,
                              const std::string& failure) {
  proto::Alert alert;
  alert.set_name(std::string(AlertName(failure.empty() ? AlertKind::kCertificateEnds
                                                       : AlertKind::kCertificateNotRenewed)));
  alert.set_since_unix_s(since);
  const std::string when = ends == 0 ? "" : " ends at " + DescribeTime(ends);
  const std::string why = failure.empty() ? "" : " is not renewed: " + failure;
  alert.set_message(fmt::format("the certificate of {}{}{}{}", who, when,
                                when.empty() || why.empty() ? "" : " and", why));
  alert.set_action(
      "look at that program's log; its trust folder must belong to its user, and the coordinator "
      "must hold ca.key. `forebay join` with a new token always helps");
  return alert;
}

}  // namespace

Status TrustBook::Load(std::int64_t now_unix_s) {
  if (!own_) return {};
  std::vector<Revocation> revoked;
  for (const char* key : {kRevokedKey, kRevokedViewersKey}) {
    Result<std::optional<std::string>> stored = store_.Get(key);
    if (!stored) return Fail(stored.error());
    const Result<std::vector<Revocation>> some = RevocationsOf(stored->value_or(""));
    if (!some) return Fail(some.error());
    revoked.insert(revoked.end(), some->begin(), some->end());
  }
  std::erase_if(revoked, [&](const Revocation& each) { return ForgottenAt(each) < now_unix_s; });
  own_->standing().SetRevoked(std::move(revoked));
  if (own_->folder() == nullptr) return {};
  Result<Issuer> issuer = LoadIssuer();
  if (!issuer) return Fail(issuer.error());
  KeepOwn(now_unix_s);
  return {};
}

Issuer TrustBook::issuer() const {
  const std::scoped_lock lock(mutex_);
  Issuer now = issuer_;
  if (own_) now.revoked = own_->standing().revoked();
  return now;
}

Result<Issuer> TrustBook::LoadIssuer() const {
  const TrustFolder& folder = *own_->folder();
  Issuer issuer;
  Result<std::vector<Certificate>> believed = folder.LoadAuthorities();
  if (!believed) return Fail(believed.error());
  Result<std::chrono::seconds> lifetime = folder.MemberLifetime();
  if (!lifetime) return Fail(lifetime.error());
  issuer.lifetime = *lifetime;
  Result<Authority> authority = folder.LoadAuthority();
  // Kept elsewhere for safety's sake, perhaps: then nobody joins, and nothing is renewed.
  if (!authority && authority.error().code != Code::kNotFound) return Fail(authority.error());
  if (authority) {
    issuer.believed = authority->certificate().ToPem();
    issuer.authority = std::make_shared<const Authority>(std::move(*authority));
  }
  const std::string first = issuer.believed;
  for (const Certificate& each : *believed) {
    const std::string text = each.ToPem();
    if (text != first) issuer.believed += text;
  }
  return issuer;
}

Status TrustBook::RenewOwn(const Issuer& issuer, proto::Role role, std::int64_t now_unix_s) const {
  const TrustFolder& folder = *own_->folder();
  Result<MemberProof> member = folder.Load(role);
  if (!member) return Fail(member.error());
  Result<std::vector<Certificate>> believed = Certificate::AllFromPem(issuer.believed);
  if (!believed) return Fail(believed.error());
  member->authorities = std::move(*believed);
  if (!IsOwnDue(*member, now_unix_s)) return {};
  if (!issuer.authority) return Fail(NoAuthority());
  Result<FolderLock> lock = folder.TryLock();
  // Who has it for a moment is no failure: the next look is soon.
  const bool is_held = !lock && lock.error().code == Code::kOverloaded;
  if (is_held && !IsSoonOver(member->certificate.issued_unix_s(), member->certificate.ends_unix_s(),
                             now_unix_s))
    return {};
  if (!lock) return Fail(lock.error());
  // `forebay init` came between: what it has changed counts at the next look.
  const Result<Issuer> still = LoadIssuer();
  if (!still) return Fail(still.error());
  if (still->believed != issuer.believed) return {};
  Result<PrivateKey> key = PrivateKey::Generate();
  if (!key) return Fail(key.error());
  Result<std::string> request = MakeRequest(*key);
  if (!request) return Fail(request.error());
  Result<Certificate> certificate =
      issuer.authority->Issue(*request, member->self, Validity::From(now_unix_s, issuer.lifetime));
  if (!certificate) return Fail(certificate.error());
  member->certificate = std::move(*certificate);
  member->key = std::move(*key);
  Status saved = folder.Save(*member);
  if (!saved) return saved;
  spdlog::info("the certificate of {} is renewed until {}", NameOf(member->self),
               DescribeTime(member->certificate.ends_unix_s()));
  return {};
}

/// A coordinator goes on without it, and so its failure is one of its own.
void TrustBook::KeepAdmin(const Issuer& issuer, std::int64_t now_unix_s) {
  const Result<Certificate> certificate = own_->folder()->LoadCertificate(proto::ROLE_ADMIN);
  const bool is_there = certificate || certificate.error().code != Code::kNotFound;
  const Status kept = is_there ? RenewOwn(issuer, proto::ROLE_ADMIN, now_unix_s) : Status();
  const std::string why = kept ? std::string() : kept.error().message;
  const std::scoped_lock lock(mutex_);
  if (!why.empty() && why != admin_.failure)
    spdlog::error("the administrator's certificate beside the coordinator's is not kept: {}", why);
  if (why.empty() || admin_.failure.empty()) admin_.failing_since = now_unix_s;
  admin_.failure = why;
  admin_.ends_unix_s = certificate ? certificate->ends_unix_s() : 0;
}

Status TrustBook::KeepFiles(std::int64_t now_unix_s) {
  Result<Issuer> next = LoadIssuer();
  if (!next) return Fail(next.error());
  {
    const std::scoped_lock lock(mutex_);
    issuer_ = *next;
  }
  if (next->authority) own_->standing().NoteCoordinator(now_unix_s);
  const Status kept = RenewOwn(*next, proto::ROLE_COORDINATOR, now_unix_s);
  KeepAdmin(*next, now_unix_s);
  // Also what `forebay init` has written.
  const Result<MemberProof> own = own_->folder()->Load(proto::ROLE_COORDINATOR);
  const bool newer = own && (own->certificate.ends_unix_s() != own_->ends_unix_s() ||
                             PemOf(own->authorities) != own_->believed());
  const Status reloaded = newer ? own_->Reload() : Status();
  return kept ? reloaded : kept;
}

// A folder that cannot be written to is told of with the certificates, which are not kept either.
void TrustBook::LogActions() const {
  std::ignore = own_->folder()->TellActions(
      [](const std::string& line) { LogAlways(LogLevel::kInfo, "audit: " + line); });
}

void TrustBook::KeepOwn(std::int64_t now_unix_s) {
  if (!own_ || own_->folder() == nullptr) return;
  LogActions();
  const Status kept = KeepFiles(now_unix_s);
  const std::string why = kept ? std::string() : kept.error().message;
  if (!why.empty() && why != own_->renewal_failure())
    spdlog::error("the coordinator's certificates are not kept: {}", why);
  own_->NoteRenewal(why);
}

Result<Certificate> TrustBook::Issue(const proto::RenewRequest& request, const PeerIdentity& peer,
                                     std::int64_t now_unix_s) const {
  const Issuer now = issuer();
  if (!now.authority) return Fail(NoAuthority());
  const Identity member{.cluster = own_->self().cluster, .role = peer.role, .id = peer.id};
  std::chrono::seconds lifetime = now.lifetime;
  if (peer.terms.links) lifetime = std::min<std::chrono::seconds>(lifetime, kGrantLifetime);
  return now.authority->Issue(request.request(), member, Validity::From(now_unix_s, lifetime),
                              peer.terms.links);
}

Result<proto::RenewReply> TrustBook::Renew(const proto::RenewRequest& request,
                                           const PeerIdentity& peer, std::int64_t now_unix_s) {
  if (!own_ || !peer.proved)
    return Fail(Code::kInvalid, "a certificate is renewed for who shows it, over TLS");
  if (peer.role == proto::ROLE_COORDINATOR && !request.request().empty())
    return Fail(Code::kInvalid, "a coordinator renews its own certificate, with ca.key");
  proto::RenewReply reply;
  std::string refusal = request.failure();
  if (!request.request().empty()) {
    Result<Certificate> issued = Issue(request, peer, now_unix_s);
    if (!issued) {
      Note(request, peer, issued.error().message, now_unix_s);
      return Fail(issued.error());
    }
    reply.set_certificate(issued->ToPem());
    refusal.clear();
    spdlog::info("the certificate of {} {} is renewed until {}", RoleWord(peer.role), peer.id,
                 DescribeTime(issued->ends_unix_s()));
  }
  Note(request, peer, refusal, now_unix_s);
  const Issuer now = issuer();
  // Who uses a command asks once, with the certificate before.
  if (IsOfCommand(peer.role) && now.authority && !reply.certificate().empty()) {
    const std::scoped_lock lock(mutex_);
    const auto seen = seen_.find(Name(RoleWord(peer.role), peer.id));
    if (seen != seen_.end()) seen->second.authority = now.authority->certificate().KeyHash();
  }
  reply.set_known(Known());
  reply.set_renews(now.authority != nullptr);
  if (request.known() == reply.known()) return reply;
  reply.set_authorities(now.believed);
  reply.set_revoked(TextOfOthers(own_->standing().revoked()));
  return reply;
}

/// Names what is believed here, and who was revoked.
std::string TrustBook::Known() const {
  return JoinProof(Secret(issuer().believed), TextOfOthers(own_->standing().revoked()), "");
}

proto::RenewRequest TrustBook::Report(const std::string& address) const {
  proto::RenewRequest report;
  report.set_known(Known());
  report.set_ends_unix_s(own_->ends_unix_s());
  report.set_failure(own_->renewal_failure());
  report.set_standby(address);
  for (std::string& each : Believed()) report.add_believes(std::move(each));
  return report;
}

void TrustBook::NoteServing() {
  const std::scoped_lock lock(mutex_);
  since_ = Clock::now();
}

std::vector<std::string> TrustBook::Believed() const {
  const std::optional<MemberProof> own = own_ ? own_->member() : std::nullopt;
  if (!own) return {};
  std::vector<std::string> hashes;
  for (const Certificate& each : own->authorities) hashes.push_back(each.KeyHash());
  const Issuer now = issuer();
  if (now.authority) {
    const auto first = std::ranges::find(hashes, now.authority->certificate().KeyHash());
    if (first != hashes.end()) std::rotate(hashes.begin(), first, first + 1);
  }
  return hashes;
}

void TrustBook::Note(const proto::RenewRequest& request, const PeerIdentity& peer,
                     const std::string& refusal, std::int64_t now_unix_s) {
  constexpr std::size_t kLongestReason = 500;
  constexpr std::size_t kLongestPlace = 300;
  const std::scoped_lock lock(mutex_);
  for (const std::int64_t longest : {kRememberedSeconds, kHereSeconds}) {
    if (seen_.size() < kMostSeen) break;
    std::erase_if(seen_, [&](const auto& each) {
      return now_unix_s - each.second.state.seen_unix_s() > longest;
    });
  }
  // Coordinators that stand in for one another have one certificate, of which each has a copy.
  const bool stands_by = peer.role == proto::ROLE_COORDINATOR;
  const Name name(RoleWord(peer.role),
                  stands_by ? request.standby().substr(0, kLongestPlace) : peer.id);
  if (name.second.empty() || (seen_.size() >= kMostSeen && !seen_.contains(name))) return;
  Seen& seen = seen_[name];
  seen.issued_unix_s = peer.terms.issued_unix_s;
  seen.asked_at = Clock::now();
  seen.known = request.known();
  seen.believes = {request.believes().begin(), request.believes().end()};
  seen.authority = peer.terms.authority;
  seen.state.set_role(name.first);
  seen.state.set_id(name.second);
  seen.state.set_ends_unix_s(request.ends_unix_s());
  seen.state.set_seen_unix_s(now_unix_s);
  seen.state.set_address(peer.address);
  seen.state.clear_links();
  for (const std::string& link : peer.terms.links.value_or(std::vector<std::string>()))
    seen.state.add_links(link);
  if (refusal.empty()) seen.failing_since = 0;
  if (!refusal.empty() && seen.state.failure().empty()) seen.failing_since = now_unix_s;
  seen.state.set_failure(refusal.substr(0, kLongestReason));
}

void TrustBook::NoteJoined(const Certificate& certificate, const std::string& address) {
  const Result<Identity> member = certificate.Member();
  const auto links = certificate.Links();
  if (!member || !links) return;
  const Issuer now = issuer();
  const std::scoped_lock lock(mutex_);
  const Name name(RoleWord(member->role), member->id);
  if (seen_.size() >= kMostSeen && !seen_.contains(name)) return;
  Seen& seen = seen_[name];
  seen.issued_unix_s = certificate.issued_unix_s();
  if (now.authority && certificate.IsIssuedBy(now.authority->certificate()))
    seen.authority = now.authority->certificate().KeyHash();
  seen.failing_since = 0;
  seen.state.set_role(name.first);
  seen.state.set_id(name.second);
  seen.state.set_ends_unix_s(certificate.ends_unix_s());
  seen.state.set_address(address);
  seen.state.clear_failure();
  seen.state.clear_links();
  for (const std::string& link : links->value_or(std::vector<std::string>()))
    seen.state.add_links(link);
}

Result<proto::RevokeMemberReply> TrustBook::Revoke(const proto::RevokeMemberRequest& request,
                                                   const PeerIdentity& peer,
                                                   std::int64_t now_unix_s) {
  const proto::Role role = RoleOfWord(request.role());
  if (!own_) return Fail(Code::kInvalid, "this cluster has no certificates: see `forebay init`");
  if (!Joins(role))
    return Fail(Code::kInvalid, "a client, a node, an admin or a viewer can be revoked");
  Status named = CheckMemberId(request.id());
  if (!named) return Fail(named.error());
  if (peer.proved && peer.role == role && peer.id == request.id()) {
    return Fail(Code::kInvalid,
                "that is the certificate this request is made with: revoke it as "
                "another administrator");
  }
  const std::scoped_lock change(changing_);
  std::vector<Revocation> revoked = own_->standing().revoked();
  const Identity member{.cluster = own_->self().cluster, .role = role, .id = request.id()};
  // Whoever joined again within this second has a certificate of the next one.
  const std::int64_t until = IssueTime(revoked, member, now_unix_s);
  std::erase_if(revoked, [&](const Revocation& each) {
    return (each.role == role && each.id == request.id()) || ForgottenAt(each) < now_unix_s;
  });
  if (revoked.size() >= kMaxRevocations) {
    return Fail(Code::kInvalid,
                "too many members are revoked: replace the authority (`forebay "
                "init --rotate-ca`)");
  }
  revoked.push_back({.role = role, .id = request.id(), .until_unix_s = until});
  StateBatch batch;
  batch.Put(kRevokedKey, TextOfOthers(revoked));
  batch.Put(kRevokedViewersKey, TextOfViewers(revoked));
  Status written = store_.Write(batch, fence_);
  if (!written) return Fail(written.error());
  own_->standing().SetRevoked(std::move(revoked));
  proto::RevokeMemberReply reply;
  reply.set_until_unix_s(until);
  const std::scoped_lock lock(mutex_);
  reply.set_unseen(!seen_.contains(Name(request.role(), request.id())));
  return reply;
}

std::vector<proto::MemberState> TrustBook::Members() const {
  std::map<Name, proto::MemberState> all;
  std::map<Name, std::int64_t> issued;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, seen] : seen_) {
      all[name] = seen.state;
      issued[name] = seen.issued_unix_s;
    }
  }
  for (const Revocation& each : own_ ? own_->standing().revoked() : std::vector<Revocation>()) {
    const Name name(RoleWord(each.role), each.id);
    const auto again = issued.find(name);
    if (again != issued.end() && again->second > each.until_unix_s) continue;
    proto::MemberState& state = all[name];
    state.set_role(std::string(RoleWord(each.role)));
    state.set_id(each.id);
    state.set_revoked_unix_s(each.until_unix_s);
  }
  std::vector<proto::MemberState> members;
  members.reserve(all.size());
  for (auto& [name, state] : all) members.push_back(std::move(state));
  return members;
}

std::set<std::string> TrustBook::RevokedNodes() const {
  std::set<std::string> ids;
  for (const proto::MemberState& member : Members()) {
    const bool is_node = RoleOfWord(member.role()) == proto::ROLE_NODE;
    if (is_node && member.revoked_unix_s() != 0) ids.insert(member.id());
  }
  return ids;
}

void TrustBook::DescribeRotation(const Expected& expected, TimePoint now,
                                 proto::ListMembersReply& reply) const {
  const std::vector<std::string> believed = Believed();
  if (believed.empty()) return;
  const std::set<std::string> all(believed.begin(), believed.end());
  const std::string known = Known();
  const Seen never;
  const auto count = [&](const Name& name, const Seen& seen, bool is_expected) {
    const bool follows = seen.believes.empty() ? seen.known == known : seen.believes == all;
    const bool of_command = IsOfCommand(RoleOfWord(name.first));
    const bool asked = seen.asked_at != TimePoint() && now - seen.asked_at < kAwayAfter;
    const bool running = is_expected || (asked && !of_command);
    if (!follows) NoteLaggard(name.first + " " + name.second, running, *reply.mutable_unaware());
    if (seen.authority != believed.front())
      NoteLaggard(name.first + " " + name.second, running, *reply.mutable_unrenewed());
  };
  for (const std::string& each : believed) reply.add_authorities(each);
  const std::string node(RoleWord(proto::ROLE_NODE));
  const std::string coordinator(RoleWord(proto::ROLE_COORDINATOR));
  const std::scoped_lock lock(mutex_);
  const auto settles = std::chrono::ceil<std::chrono::seconds>(since_ + kAllHaveAsked - now);
  reply.set_settles_in_s(static_cast<std::uint32_t>(std::max<std::int64_t>(settles.count(), 0)));
  for (const std::string& id : expected.nodes)
    if (!seen_.contains(Name(node, id))) count(Name(node, id), never, true);
  for (const std::string& address : expected.standbys)
    if (!seen_.contains(Name(coordinator, address))) count(Name(coordinator, address), never, true);
  for (const auto& [name, seen] : seen_) {
    const Revocation revoked{.role = RoleOfWord(name.first), .id = name.second};
    if (own_->standing().IsRevoked(revoked.role, revoked.id, seen.issued_unix_s)) continue;
    const bool is_expected =
        (name.first == node && expected.nodes.contains(name.second)) ||
        (name.first == coordinator &&
         std::ranges::find(expected.standbys, name.second) != expected.standbys.end());
    count(name, seen, is_expected);
  }
  if (seen_.size() < kMostSeen) return;
  for (proto::Laggards* each : {reply.mutable_unaware(), reply.mutable_unrenewed()})
    NoteLaggard("whoever came when so many had come before", true, *each);
}

std::vector<proto::Alert> TrustBook::Alerts(std::int64_t now_unix_s) const {
  std::vector<proto::Alert> alerts;
  if (!own_) return alerts;
  const std::string failure = own_->renewal_failure();
  if (!failure.empty())
    alerts.push_back(CertificateAlert("the coordinator", 0, own_->ends_unix_s(), failure));
  const std::scoped_lock lock(mutex_);
  if (!admin_.failure.empty()) {
    alerts.push_back(CertificateAlert("the administrator on the coordinator's machine",
                                      admin_.failing_since, admin_.ends_unix_s, admin_.failure));
  }
  for (const auto& [name, seen] : seen_) {
    const proto::MemberState& state = seen.state;
    const bool here = now_unix_s - state.seen_unix_s() < kHereSeconds;
    const bool soon = IsSoonOver(seen.issued_unix_s, state.ends_unix_s(), now_unix_s);
    const Revocation revoked{.role = RoleOfWord(name.first), .id = name.second};
    if (!here || (state.failure().empty() && !soon)) continue;
    if (own_->standing().IsRevoked(revoked.role, revoked.id, seen.issued_unix_s)) continue;
    alerts.push_back(CertificateAlert(name.first + " " + name.second, seen.failing_since,
                                      state.ends_unix_s(), state.failure()));
    if (alerts.size() == kMostAlerts) break;
  }
  return alerts;
}

}  // namespace forebay
