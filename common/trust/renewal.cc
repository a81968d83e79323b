#include "common/trust/renewal.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace forebay {
namespace {

constexpr std::int64_t kTryAgainSeconds = 60;

/// Whether the files say so already: then nobody needs the right to write them.
bool IsKnown(const TrustFolder& folder, const proto::RenewReply& reply) {
  const Result<std::vector<Certificate>> authorities = folder.LoadAuthorities();
  const Result<std::vector<Revocation>> revoked = folder.LoadRevoked();
  if (!authorities || !revoked || TextOf(*revoked) != reply.revoked()) return false;
  return folder.HoldsAuthority() || PemOf(*authorities) == reply.authorities();
}

}  // namespace

bool IsDue(const MemberProof& member, std::int64_t now_unix_s) {
  const std::int64_t issued = member.certificate.issued_unix_s();
  const std::int64_t third = (member.certificate.ends_unix_s() - issued) / 3;
  return now_unix_s >= issued + third || !member.certificate.IsIssuedBy(member.authorities.front());
}

bool IsOwnDue(const MemberProof& member, std::int64_t now_unix_s) {
  return IsDue(member, now_unix_s) || now_unix_s < member.certificate.begins_unix_s();
}

bool IsSoonOver(std::int64_t issued_unix_s, std::int64_t ends_unix_s, std::int64_t now_unix_s) {
  const std::int64_t sixth = (ends_unix_s - issued_unix_s) / 6;
  return ends_unix_s - now_unix_s < std::min(std::chrono::seconds(kSoonOver).count(), sixth);
}

/// What is in the files, and in force then.
Result<MemberProof> Renewal::TakeUpFiles() {
  Result<MemberProof> member = trust_->folder()->Load(trust_->self().role);
  if (!member) return member;
  // What could not be kept is in force, and what is in the files is older.
  const bool other = !unkept_ && PemOf(member->authorities) != trust_->believed();
  if (!other && member->certificate.ends_unix_s() == trust_->ends_unix_s()) return member;
  Status taken = trust_->Reload();
  if (!taken) return Fail(taken.error());
  // They may be older than what the coordinator has said.
  if (other) known_.clear();
  return member;
}

Result<proto::RenewRequest> Renewal::Prepare(std::int64_t now_unix_s) {
  key_.reset();
  const Result<MemberProof> member = TakeUpFiles();
  const bool due = member && IsDue(*member, now_unix_s);
  if (!member) NoteFailure(member.error().message);
  // Somebody else has renewed it: another program of this machine, or `forebay join`.
  if (member && !due && !unkept_) trust_->NoteRenewal({});
  proto::RenewRequest request;
  request.set_known(known_);
  request.set_ends_unix_s(trust_->ends_unix_s());
  request.set_failure(trust_->renewal_failure());
  const std::optional<MemberProof> in_force = unkept_ ? std::nullopt : trust_->member();
  if (in_force) {
    for (const Certificate& each : in_force->authorities) request.add_believes(each.KeyHash());
  }
  // A clock that was far ahead when the time was noted does not count.
  const bool waits =
      now_unix_s < not_before_unix_s_ && now_unix_s >= not_before_unix_s_ - kTryAgainSeconds;
  if (!due || waits) return request;
  Result<PrivateKey> key = PrivateKey::Generate();
  if (!key) return Fail(key.error());
  Result<std::string> wanted = MakeRequest(*key);
  if (!wanted) return Fail(wanted.error());
  key_ = std::move(*key);
  request.set_request(std::move(*wanted));
  return request;
}

Result<MemberProof> Renewal::Renewed(const proto::RenewReply& reply, MemberProof member,
                                     std::int64_t now_unix_s) const {
  if (!reply.authorities().empty()) {
    Result<std::vector<Certificate>> all = Certificate::AllFromPem(reply.authorities());
    if (!all) return Fail(all.error());
    member.authorities = std::move(*all);
  }
  if (!reply.certificate().empty()) {
    Result<Certificate> certificate = Certificate::FromPem(reply.certificate());
    if (!certificate) return Fail(certificate.error());
    if (!key_ || !certificate->Fits(*key_))
      return Fail(Code::kCorrupt, "the certificate does not belong to the new key");
    member.certificate = std::move(*certificate);
    member.key = *key_;
  }
  // Never what nobody would believe: a member that has ended may wait for its renewal.
  const Belief belief{.authorities = member.authorities, .cluster = trust_->self().cluster};
  const std::int64_t when = std::min(now_unix_s, member.certificate.ends_unix_s() - 1);
  Result<Identity> self = VerifyMember(member.certificate, belief, Purpose::kConnects, when);
  if (!self) return Fail(self.error());
  if (*self != trust_->self())
    return Fail(Code::kCorrupt, "the certificate is that of " + NameOf(*self));
  return member;
}

Result<bool> Renewal::Keep(const proto::RenewReply& reply, std::int64_t now_unix_s) {
  const TrustFolder& folder = *trust_->folder();
  if (reply.certificate().empty() && IsKnown(folder, reply)) return false;
  Result<FolderLock> lock = folder.Lock();
  if (!lock) return Fail(lock.error());
  Result<MemberProof> member = folder.Load(trust_->self().role);
  if (!member) return Fail(member.error());
  const bool another_was_first = member->certificate.ends_unix_s() != trust_->ends_unix_s();
  Result<std::vector<Revocation>> revoked = RevocationsOf(reply.revoked());
  if (!revoked) return Fail(revoked.error());
  proto::RenewReply rest = reply;
  if (another_was_first) rest.clear_certificate();
  // The coordinator has these from this folder, some seconds ago: the next authority would be gone
  // with its key left, or the one before believed again.
  if (folder.HoldsAuthority()) rest.clear_authorities();
  Result<MemberProof> next = Renewed(rest, std::move(*member), now_unix_s);
  if (!next) return Fail(next.error());
  Status saved;
  if (!rest.certificate().empty()) {
    saved = folder.Save(*next);
  } else if (!rest.authorities().empty()) {
    saved = folder.SaveAuthorities(next->authorities);
  }
  if (saved && !reply.authorities().empty()) saved = folder.SaveRevoked(*revoked);
  if (!saved) return Fail(saved.error());
  return true;
}

/// Without the files.
Status Renewal::Believe(const proto::RenewReply& reply, std::int64_t now_unix_s) const {
  std::optional<MemberProof> member = trust_->member();
  if (!member) return {};
  proto::RenewReply rest = reply;
  rest.clear_certificate();
  if (trust_->folder()->HoldsAuthority()) rest.clear_authorities();
  Result<MemberProof> next = Renewed(rest, std::move(*member), now_unix_s);
  if (!next) return Fail(next.error());
  Result<std::vector<Revocation>> revoked = RevocationsOf(reply.revoked());
  if (!revoked) return Fail(revoked.error());
  return trust_->Believe(std::move(next->authorities), std::move(*revoked));
}

Status Renewal::Take(const proto::RenewReply& reply, std::int64_t now_unix_s) {
  if (reply.renews()) trust_->standing().NoteCoordinator(now_unix_s);
  // What is believed comes whole or not at all.
  unkept_ = unkept_ && !reply.authorities().empty();
  if (reply.certificate().empty() && reply.authorities().empty()) return {};
  const Result<bool> changed = Keep(reply, now_unix_s);
  Status kept = changed ? Status() : Fail(changed.error());
  // Another program may have written the files: what counts is what is in force here. Connections
  // are opened anew after it, so never for nothing.
  const bool in_force = reply.authorities() == trust_->believed() &&
                        reply.revoked() == TextOf(trust_->standing().revoked());
  if (kept && (*changed || !in_force)) kept = trust_->Reload();
  if (!kept) {
    unkept_ = true;
    // What does not fit is in force nowhere; a folder that cannot be written is no reason.
    if (!reply.authorities().empty()) std::ignore = Believe(reply, now_unix_s);
    const char* const what = key_ ? "" : "whom to believe, and who was revoked, cannot be kept: ";
    NoteFailure(what + kept.error().message);
    Failed(kept.error(), now_unix_s);
    return kept;
  }
  unkept_ = false;
  known_ = reply.known();
  if (!reply.certificate().empty()) {
    trust_->NoteRenewal({});
    spdlog::info("the certificate of {} is renewed until {}", NameOf(trust_->self()),
                 DescribeTime(trust_->ends_unix_s()));
  }
  return {};
}

void Renewal::Failed(const Error& why, std::int64_t now_unix_s) {
  if (!key_) return;
  const bool silent = why.code == Code::kUnavailable || why.code == Code::kTimeout;
  not_before_unix_s_ = silent ? now_unix_s : now_unix_s + kTryAgainSeconds;
  NoteFailure(why.message);
}

void Renewal::NoteFailure(const std::string& why) {
  const bool new_failure = trust_->renewal_failure().empty();
  trust_->NoteRenewal(why);
  if (!new_failure) return;
  if (key_) {
    spdlog::error("the certificate of {} is not renewed, and ends at {}: {}",
                  NameOf(trust_->self()), DescribeTime(trust_->ends_unix_s()), why);
  } else {
    spdlog::warn("the trust folder of {} is not kept: {}", NameOf(trust_->self()), why);
  }
}

}  // namespace forebay
