#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/trust/tls.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// With less than this, or a sixth of its time, left of a certificate somebody is told.
inline constexpr std::chrono::hours kSoonOver{5 * 24};

/// Whether it is time to renew: a third of its time is over, or another authority issues now.
bool IsDue(const MemberProof& member, std::int64_t now_unix_s);
/// The same, where the authority is at hand: there also one is due that has not begun, made while
/// this clock was ahead, which nobody believes.
bool IsOwnDue(const MemberProof& member, std::int64_t now_unix_s);
/// Whether so little is left that somebody must look.
bool IsSoonOver(std::int64_t issued_unix_s, std::int64_t ends_unix_s, std::int64_t now_unix_s);

/// Renews a member's certificate, without the network: Prepare, ask the coordinator, Take or
/// Failed. The new key is made here and never leaves this machine. Programs that share a
/// certificate agree: who is second takes what the first has got. Blocking; one call at a time.
class Renewal {
 public:
  explicit Renewal(std::shared_ptr<Trust> trust) : trust_(std::move(trust)) {}

  /// What to ask: for a certificate, where it is due, and for what has changed in whom to believe.
  /// Takes up what another program has written meanwhile. What cannot be read is a failure that is
  /// told with the question.
  Result<proto::RenewRequest> Prepare(std::int64_t now_unix_s);
  /// Brings the answer into force, and keeps it. What does not fit is refused and changes nothing.
  /// Whom to believe is in force also where it cannot be kept, which is a failure: a full disk lets
  /// nobody in who was revoked, and shuts nobody out. A certificate is kept or is not in force.
  Status Take(const proto::RenewReply& reply, std::int64_t now_unix_s);
  /// Nobody answered, or the answer was no. Who answers that is asked again a minute later; where
  /// nobody answers, at the next call: the first coordinator that comes back is asked at once, so
  /// that a member whose time is over does not wait for its minute.
  void Failed(const Error& why, std::int64_t now_unix_s);

 private:
  /// Whether there was something to keep.
  Result<bool> Keep(const proto::RenewReply& reply, std::int64_t now_unix_s);
  Result<MemberProof> Renewed(const proto::RenewReply& reply, MemberProof member,
                              std::int64_t now_unix_s) const;
  Status Believe(const proto::RenewReply& reply, std::int64_t now_unix_s) const;
  Result<MemberProof> TakeUpFiles();
  void NoteFailure(const std::string& why);

  const std::shared_ptr<Trust> trust_;
  std::optional<PrivateKey> key_;       // of the request that is under way
  std::string known_;                   // RenewReply.known of the last answer
  std::int64_t not_before_unix_s_ = 0;  // a renewal that was refused is tried again then
  bool unkept_ = false;                 // the last answer is not in the files
};

}  // namespace forebay
