#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/trust/certificate.h"
#include "common/trust/identity.h"

namespace forebay {

/// How long a certificate is believed, by the clocks of those who look at it.
struct Validity {
  std::int64_t begins_unix_s = 0;
  std::int64_t ends_unix_s = 0;

  /// From a little before `now`, because clocks differ.
  static Validity From(std::int64_t now_unix_s, std::chrono::seconds length);
};

inline constexpr std::chrono::hours kMemberLifetime{30 * 24};  // DESIGN section 10
inline constexpr std::chrono::hours kLongestMemberLifetime{90 * 24};
inline constexpr std::chrono::minutes kShortestMemberLifetime{1};
inline constexpr std::chrono::hours kAuthorityLifetime{10 * 365 * 24};  // replaced by hand
/// Of a client that may read some links only.
inline constexpr std::chrono::hours kGrantLifetime{14 * 24};  // DESIGN section 10
inline constexpr std::size_t kMaxGrantedLinks = 64;

/// What a new member sends: its public key, signed with the private one (PKCS #10, DER).
Result<std::string> MakeRequest(const PrivateKey& key);

/// The cluster's certificate authority: who holds its key decides who is a member.
class Authority {
 public:
  static Result<Authority> Make(const Uuid& cluster, std::int64_t now_unix_s);
  /// kInvalid when the key is not the certificate's.
  static Result<Authority> Of(Certificate certificate, PrivateKey key);

  /// kInvalid: `request` is none, is not signed with its own key, or its key is not on P-256; or
  /// the member's id is none, or there are too many `links`. Clients and admins can only connect,
  /// nodes and coordinators can also be connected to. `links` are those that a client may read;
  /// nothing = all.
  Result<Certificate> Issue(
      std::string_view request, const Identity& member, Validity validity,
      const std::optional<std::vector<std::string>>& links = std::nullopt) const;

  const Certificate& certificate() const { return certificate_; }
  const PrivateKey& key() const { return key_; }

 private:
  Authority(Certificate certificate, PrivateKey key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}
  Certificate certificate_;
  PrivateKey key_;
};

/// What the owner of a certificate does in a connection.
enum class Purpose : std::uint8_t { kConnects, kIsConnectedTo };

/// Whom to believe.
struct Belief {
  std::vector<Certificate> authorities;
  Uuid cluster;
};

/// Who owns `certificate`. kDenied with a sentence: signed by none of the authorities, not valid
/// yet or any more, not made for `purpose`, of another cluster.
Result<Identity> VerifyMember(const Certificate& certificate, const Belief& belief, Purpose purpose,
                              std::int64_t now_unix_s);

}  // namespace forebay
