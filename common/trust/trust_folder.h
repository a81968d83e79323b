#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/trust/authority.h"
#include "common/trust/certificate.h"
#include "common/trust/identity.h"
#include "common/trust/standing.h"

namespace forebay {

/// What one program proves itself with, and whom it believes.
struct MemberProof {
  std::vector<Certificate> authorities;
  Certificate certificate;
  PrivateKey key;
  Identity self;
};

/// One program at a time writes to a trust folder, as long as this lives.
class FolderLock {
 public:
  explicit FolderLock(int fd) : fd_(fd) {}
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  int fd_;
};

/// The files of a machine that belongs to a cluster, in a folder that its owner alone can read:
///
///     ca.pem         the authorities that are believed
///     ROLE.pem       what this machine is: client, node, coordinator, admin or viewer
///     ROLE.key       its private key, 0600, and the certificate once more: both are new at once
///     revoked        members that are believed no more (standing.h)
///     member_lifetime  of the certificates that the coordinator here issues, in seconds
///     ca.next.key    during a change of the authority: the next one's (rotation.h)
///     ca.key         the authority's private key: on the coordinator's machine alone
///     actions        what was done here by hand and is not in the coordinator's log yet
///
/// Blocking; any thread.
class TrustFolder {
 public:
  explicit TrustFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  /// Whether this machine belongs to a cluster at all; not with the path "". kDenied when that
  /// cannot be seen.
  Result<bool> Exists() const;

  /// kInvalid: there is no certificate for `role`, or the files do not fit together; kDenied: they
  /// are readable by others, or not by this user. Sentences say what to do.
  Result<MemberProof> Load(proto::Role role) const;
  /// ROLE.pem alone, whatever its key. kNotFound: there is none.
  Result<Certificate> LoadCertificate(proto::Role role) const;
  /// Whether this user could Save here; makes nothing. The sentence says what stands against it.
  Status CheckWritable() const;
  /// At any moment Load takes what was there or what is new, also after a power cut. What root
  /// writes belongs to the folder's owner.
  Status Save(const MemberProof& member) const;
  /// Waits for it. kDenied: this user may not write there.
  Result<FolderLock> Lock() const;
  /// Waits for nobody. kOverloaded: another program has it; kDenied as Lock.
  Result<FolderLock> TryLock() const;

  Result<std::vector<Revocation>> LoadRevoked() const;
  Status SaveRevoked(const std::vector<Revocation>& revoked) const;
  Status SaveAuthorities(const std::vector<Certificate>& authorities) const;

  /// Those that are believed, at least one. kNotFound: there is no cluster here.
  Result<std::vector<Certificate>> LoadAuthorities() const;
  /// With its key. kNotFound: that is elsewhere.
  Result<Authority> LoadAuthority() const;
  /// Whether that key is here, readable or not. Such a folder says itself whom to believe, by the
  /// steps of rotation.h; all others hear it from the coordinator.
  bool HoldsAuthority() const;
  Status SaveAuthority(const Authority& authority) const;

  // The next authority (rotation.h): believed already, its key beside that of the present one.
  /// kNotFound: there is none.
  Result<Authority> LoadNextAuthority() const;
  /// Its key alone.
  Status SaveNextAuthority(const Authority& next) const;
  /// It takes the place of the present one, whose key is gone then.
  Status SwitchAuthority() const;
  /// Its key alone, where it is there.
  Status RemoveNextAuthority() const;

  /// For how long the coordinator here issues certificates; kMemberLifetime unless
  /// SaveMemberLifetime said otherwise.
  Result<std::chrono::seconds> MemberLifetime() const;
  Status SaveMemberLifetime(std::chrono::seconds lifetime) const;

  /// What an administrator did to the folder without asking the coordinator, as a line for its
  /// audit; of more than kMostActions the oldest go. The caller has the lock, or nobody else knows
  /// the folder yet.
  Status NoteAction(const std::string& line) const;
  static constexpr std::size_t kMostActions = 1000;
  /// Tells all of them, the oldest first; then there are none. Who dies in between tells them
  /// again. Waits for nobody: while another program has the lock nothing is told.
  Status TellActions(const std::function<void(const std::string&)>& tell) const;

 private:
  std::string At(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// `way`: as flock(2) has it. kOverloaded: another has the lock, and LOCK_NB was asked for.
  Result<FolderLock> LockBy(int way) const;
  Result<PrivateKey> LoadKey(const std::string& file) const;
  Result<Authority> LoadAuthorityOf(const std::string& key_file) const;
  Result<std::vector<std::string>> ReadActions() const;
  Status Write(const std::string& file, std::string_view bytes) const;

  const std::string path_;
};

}  // namespace forebay
