#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/s3/auth/instance_metadata.h"
#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// What a profile of the shared files gives: a role (role_arn with source_profile,
/// credential_source or web_identity_token_file), its own keys, or those that its
/// credential_process prints; in this order. Single sign-on and MFA need a person and are refused.
class ProfileCredentials final : public CredentialProvider {
 public:
  /// `ca_bundle` as CaBundleOf's `given`.
  ProfileCredentials(AwsEnvironment environment, std::string ca_bundle)
      : environment_(std::move(environment)),
        ca_bundle_(std::move(ca_bundle)),
        metadata_(environment_) {}

  std::string_view name() const override { return "shared files"; }
  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override;
  std::string Stamp() const override { return SharedFilesStamp(environment_); }

 private:
  // The profiles on the way to this one, outermost first.
  using Trail = std::vector<std::string>;

  CredentialAnswer OfProfile(const std::string& name, const Trail& trail,
                             std::stop_token stop) const;
  CredentialAnswer OfRole(const AwsProfile& profile, Trail trail, std::stop_token stop) const;
  // The credentials that ask for the role.
  CredentialAnswer SourceOf(const AwsProfile& profile, Trail trail, std::stop_token stop) const;

  AwsEnvironment environment_;
  std::string ca_bundle_;
  InstanceMetadata metadata_;
};

}  // namespace forebay
