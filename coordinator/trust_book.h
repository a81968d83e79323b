#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/trust/authority.h"
#include "common/trust/standing.h"
#include "common/trust/tls.h"
#include "common/wire/rpc.h"
#include "coordinator/state_store.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Who issues certificates now, and what members of this cluster believe.
struct Issuer {
  std::shared_ptr<const Authority> authority;  ///< Null: nobody can join or renew.
  std::string believed;                        ///< PEM; the authority that issues comes first.
  std::chrono::seconds lifetime = kMemberLifetime;
  std::vector<Revocation> revoked = {};  ///< Whoever joins again is issued to behind them.
};

/// The members' certificates: renews them, knows who was revoked, and says whose are in trouble.
/// Blocking (Offload) where it says so; any thread.
class TrustBook {
 public:
  /// `own` is the coordinator's; null: there are no certificates, and nobody asks for any.
  TrustBook(StateStore& store, std::uint64_t fence, std::shared_ptr<Trust> own)
      : store_(store), fence_(fence), own_(std::move(own)) {}

  /// Before anything serves. Blocks.
  Status Load(std::int64_t now_unix_s);
  /// Reads the authority again, and renews what this machine has of its own in time: the
  /// coordinator's certificate, and the administrator's beside it. Puts into the log what an
  /// administrator did to the folder by hand. Blocks.
  void KeepOwn(std::int64_t now_unix_s);
  Issuer issuer() const;

  /// For the owner of a certificate, which is good or ended a short while ago. Blocks. kInvalid: it
  /// has proved nothing, or this coordinator cannot issue any.
  Result<proto::RenewReply> Renew(const proto::RenewRequest& request, const PeerIdentity& peer,
                                  std::int64_t now_unix_s);

  /// `certificate` was issued to who joined from `address`: Members has it before it asks.
  void NoteJoined(const Certificate& certificate, const std::string& address);

  /// Blocks. kInvalid: no such role or id, or that of `peer`, who asks.
  Result<proto::RevokeMemberReply> Revoke(const proto::RevokeMemberRequest& request,
                                          const PeerIdentity& peer, std::int64_t now_unix_s);

  /// Who joined here or asked within the last month, and who is revoked and has no certificate that
  /// was issued later; by role and id.
  std::vector<proto::MemberState> Members() const;
  /// Ids of the nodes that are revoked and have no certificate that was issued later.
  std::set<std::string> RevokedNodes() const;
  /// Whom this coordinator believes, as key hashes, the one that issues first; none without
  /// certificates.
  std::vector<std::string> Believed() const;
  /// From now on members can ask.
  void NoteServing();
  /// Who has not asked for so long is away: what it needs is no alert, and nobody waits for it.
  static constexpr std::chrono::minutes kAwayAfter{10};
  /// Who must have followed a change of the authority, beside those who ask: the ids of the nodes
  /// in the ring, silent ones, too, and the addresses of the coordinators that stand by.
  struct Expected {
    std::set<std::string> nodes;
    std::vector<std::string> standbys;
  };
  /// Says in `reply` how far a change of the authority has come (rotation.h), as of `now`.
  void DescribeRotation(const Expected& expected, TimePoint now,
                        proto::ListMembersReply& reply) const;
  /// What a coordinator that stands by at `address` tells the one that leads.
  proto::RenewRequest Report(const std::string& address) const;
  /// Certificates that are not renewed, or end soon.
  std::vector<proto::Alert> Alerts(std::int64_t now_unix_s) const;

 private:
  using Name = std::pair<std::string, std::string>;  // role, id
  struct Seen {
    proto::MemberState state;
    std::int64_t issued_unix_s = 0;
    std::int64_t failing_since = 0;
    TimePoint asked_at;              // the last time; the epoch = not yet
    std::set<std::string> believes;  // key hashes; none = it does not say
    std::string known;               // RenewReply.known of its last answer
    std::string authority;           // that its certificate is of: a key hash
  };
  /// The administrator's certificate beside the coordinator's.
  struct Beside {
    std::string failure;  ///< Why it is not renewed; "" = it is, or there is none.
    std::int64_t failing_since = 0;
    std::int64_t ends_unix_s = 0;  ///< 0 = not known.
  };

  Result<Issuer> LoadIssuer() const;
  Status RenewOwn(const Issuer& issuer, proto::Role role, std::int64_t now_unix_s) const;
  Status KeepFiles(std::int64_t now_unix_s);
  void KeepAdmin(const Issuer& issuer, std::int64_t now_unix_s);
  Result<Certificate> Issue(const proto::RenewRequest& request, const PeerIdentity& peer,
                            std::int64_t now_unix_s) const;
  void Note(const proto::RenewRequest& request, const PeerIdentity& peer,
            const std::string& refusal, std::int64_t now_unix_s);

  std::string Known() const;

  void LogActions() const;

  StateStore& store_;
  const std::uint64_t fence_;
  const std::shared_ptr<Trust> own_;
  std::mutex changing_;  // one revocation at a time
  mutable std::mutex mutex_;
  TimePoint since_ = Clock::now();  // guarded by mutex_; members can ask
  Issuer issuer_;                   // guarded by mutex_
  std::map<Name, Seen> seen_;       // guarded by mutex_
  Beside admin_;                    // guarded by mutex_
};

}  // namespace forebay
