#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/trust/identity.h"

namespace forebay {

/// For so long after its end a certificate is believed by who cannot know whether it was renewed.
inline constexpr std::chrono::hours kGrace{7 * 24};
/// A coordinator that answers for so long has been there for every member to renew.
inline constexpr std::chrono::hours kTimeToRenew{1};
/// The coordinator is asked every few seconds: with a longer gap it was away.
inline constexpr std::chrono::minutes kCoordinatorGone{2};

/// What is under way on a connection whose certificate has ended, or whose authority is replaced,
/// has so long to end.
inline constexpr std::chrono::minutes kLastCalls{10};

/// What of a member was issued until then is believed no more: a machine that joins again is.
struct Revocation {
  proto::Role role = proto::ROLE_UNKNOWN;
  std::string id;
  std::int64_t until_unix_s = 0;

  bool operator==(const Revocation&) const = default;
};

inline constexpr std::size_t kMaxRevocations = 4096;

/// As of when a certificate for `member` is issued at `now_unix_s`: a second behind a revocation of
/// that name that counts until now or later, since these count in whole seconds.
std::int64_t IssueTime(const std::vector<Revocation>& revoked, const Identity& member,
                       std::int64_t now_unix_s);

/// As they are kept in a file and compared: a line for each, "node n1 1767323000".
std::string TextOf(const std::vector<Revocation>& revocations);
/// kInvalid: it is no such text, or has more than kMaxRevocations.
Result<std::vector<Revocation>> RevocationsOf(std::string_view text);

/// What a verifier knows beside certificates: who was revoked, and whether there is a coordinator
/// that could have renewed what has ended. Thread-safe.
class Standing {
 public:
  /// `issued_unix_s`: as NoteIssued.
  explicit Standing(std::int64_t issued_unix_s = 0) : issued_unix_s_(issued_unix_s) {}

  /// The coordinator has answered.
  void NoteCoordinator(std::int64_t now_unix_s);
  /// One's own certificate was issued then: there was a coordinator, and whoever had to renew had
  /// kTimeToRenew from that time on.
  void NoteIssued(std::int64_t unix_s);

  /// Whether a certificate that has ended is believed nevertheless: within kGrace, and only as long
  /// as no coordinator was there for kTimeToRenew since. An outage of the coordinator ends no
  /// training, and neither does its end, after which members renew one after the other; a machine
  /// that did not renew while it could is out.
  bool Excuses(std::int64_t ended_unix_s, std::int64_t now_unix_s) const;
  /// Whether it is the first time for this member: for one line in the log.
  bool IsFirstExcuse(const Identity& member);

  void SetRevoked(std::vector<Revocation> revoked);
  std::vector<Revocation> revoked() const;
  bool IsRevoked(proto::Role role, std::string_view id, std::int64_t issued_unix_s) const;
  /// The key hashes of the authorities in force; none = any is believed that a handshake believed.
  void SetBelieved(std::vector<std::string> hashes);
  /// Whether who showed a certificate of that authority when it connected could do so now.
  bool IsBelieved(std::string_view authority_hash) const;
  /// Another number after each change of these: who is connected is looked at again.
  std::uint64_t revision() const { return revision_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::int64_t issued_unix_s_;         // guarded by mutex_
  std::int64_t worked_unix_s_ = 0;     // guarded by mutex_; there for kTimeToRenew, the last time
  std::int64_t answers_since_ = 0;     // guarded by mutex_; 0 = never
  std::int64_t answered_unix_s_ = 0;   // guarded by mutex_
  std::vector<Revocation> revoked_;    // guarded by mutex_
  std::vector<std::string> believed_;  // guarded by mutex_
  std::set<std::string> excused_;      // guarded by mutex_; few: a cluster's members
  std::atomic<std::uint64_t> revision_{0};
};

}  // namespace forebay
