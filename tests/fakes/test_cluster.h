#pragma once

#include <string>

#include "common/base/wall_clock.h"
#include "common/trust/authority.h"
#include "common/trust/tls.h"
#include "common/trust/trust_folder.h"

namespace forebay {

/// A cluster with certificates for tests: its authority, and members as they are asked for.
class TestCluster {
 public:
  /// Made a while ago: its members may have certificates that have ended.
  TestCluster() : authority_(Authority::Make(id, UnixSeconds() - kAgeSeconds).value()) {}

  /// For so long that the others have had time to renew: what ended before is believed no more.
  MemberProof Member(proto::Role role, const std::string& name) const {
    const std::int64_t issued = UnixSeconds() - std::chrono::seconds(kTimeToRenew).count();
    return Member(role, name, Validity::From(issued, kMemberLifetime));
  }

  MemberProof Member(proto::Role role, const std::string& name, Validity validity) const {
    const PrivateKey key = PrivateKey::Generate().value();
    const Identity self{.cluster = id, .role = role, .id = name};
    return {.authorities = {authority_.certificate()},
            .certificate = authority_.Issue(MakeRequest(key).value(), self, validity).value(),
            .key = key,
            .self = self};
  }

  std::shared_ptr<Trust> TrustOf(proto::Role role, const std::string& name) const {
    const MemberProof member = Member(role, name);
    return std::make_shared<Trust>(TlsContext::Of(member).value(), member.self);
  }

  Belief OwnBelief() const { return {.authorities = {authority_.certificate()}, .cluster = id}; }
  const Authority& authority() const { return authority_; }

  const Uuid id = Uuid::Random();

 private:
  static constexpr std::int64_t kAgeSeconds = std::int64_t{60} * 24 * 60 * 60;
  const Authority authority_;
};

}  // namespace forebay
