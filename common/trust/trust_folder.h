#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/trust/authority.h"
#include "common/trust/certificate.h"
#include "common/trust/identity.h"

namespace forebay {

/// What one program proves itself with, and whom it believes.
struct MemberProof {
  std::vector<Certificate> authorities;
  Certificate certificate;
  PrivateKey key;
  Identity self;
};

/// The files of a machine that belongs to a cluster, in a folder that its owner alone can read:
///
///     ca.pem         the authorities that are believed
///     ROLE.pem       what this machine is: client, node, coordinator or admin
///     ROLE.key       its private key, 0600
///     ca.key         the authority's private key: on the coordinator's machine alone
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
  /// Key first, certificate last: what is interrupted leaves what was there, or nothing that Load
  /// takes.
  Status Save(const MemberProof& member) const;

  /// Those that are believed, at least one. kNotFound: there is no cluster here.
  Result<std::vector<Certificate>> LoadAuthorities() const;
  /// With its key. kNotFound: that is elsewhere.
  Result<Authority> LoadAuthority() const;
  Status SaveAuthority(const Authority& authority) const;

 private:
  std::string At(std::string_view name) const { return path_ + "/" + std::string(name); }
  Result<PrivateKey> LoadKey(const std::string& file) const;

  const std::string path_;
};

}  // namespace forebay
