#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/secret.h"
#include "common/trust/identity.h"

// OpenSSL's own names, so that its headers stay in the sources.
struct evp_pkey_st;
struct x509_st;

namespace forebay {

/// A key pair on the curve P-256. Immutable; copies share it.
class PrivateKey {
 public:
  static Result<PrivateKey> Generate();
  /// kInvalid: not a private key on P-256.
  static Result<PrivateKey> FromPem(const Secret& pem);

  Secret ToPem() const;
  evp_pkey_st* native() const { return key_.get(); }

 private:
  explicit PrivateKey(evp_pkey_st* key);
  std::shared_ptr<evp_pkey_st> key_;
};

/// Clocks further apart than this are a fault that somebody has to mend; a certificate begins so
/// much before it is issued.
inline constexpr std::chrono::minutes kClockTolerance{10};

/// An X.509 certificate, read but not believed: VerifyChain says whether to. Immutable.
class Certificate {
 public:
  /// Takes over one reference.
  explicit Certificate(x509_st* certificate);
  static Result<Certificate> FromPem(std::string_view pem);
  /// All certificates of the text, at least one.
  static Result<std::vector<Certificate>> AllFromPem(std::string_view pem);

  std::string ToPem() const;
  /// The member that it names. kInvalid: none, or more than one.
  Result<Identity> Member() const;
  /// SHA-256 of its public key (SubjectPublicKeyInfo), 32 bytes: what a join token pins.
  std::string KeyHash() const;
  std::int64_t begins_unix_s() const;
  std::int64_t ends_unix_s() const;
  /// When it was made: it begins a little earlier, because clocks differ.
  std::int64_t issued_unix_s() const;
  bool Fits(const PrivateKey& key) const;
  bool IsIssuedBy(const Certificate& authority) const;
  /// The links that its owner may read, where it is a client's and not good for all.
  Result<std::optional<std::vector<std::string>>> Links() const;
  x509_st* native() const { return certificate_.get(); }

 private:
  std::shared_ptr<x509_st> certificate_;
};

/// All of them, one behind the other.
std::string PemOf(const std::vector<Certificate>& certificates);

/// "2026-11-21 18:40:00 UTC".
std::string DescribeTime(std::int64_t unix_s);

}  // namespace forebay
