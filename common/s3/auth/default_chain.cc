#include "common/s3/auth/default_chain.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "common/s3/auth/container_credentials.h"
#include "common/s3/auth/instance_metadata.h"
#include "common/s3/auth/profile_credentials.h"
#include "common/s3/auth/sts.h"

namespace forebay {
namespace {

constexpr const char* kNamesProfile = "not asked, because the link names a profile";

// A pod's role: Kubernetes keeps the token file fresh.
class WebIdentity final : public CredentialProvider {
 public:
  WebIdentity(AwsEnvironment environment, std::string ca_bundle)
      : environment_(std::move(environment)), ca_bundle_(std::move(ca_bundle)) {}
  std::string_view name() const override { return "web identity"; }

  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override {
    if (!profile.empty()) return Absent(kNamesProfile);
    const std::optional<std::string> token = environment_.Get("AWS_WEB_IDENTITY_TOKEN_FILE");
    if (!token) return Absent("AWS_WEB_IDENTITY_TOKEN_FILE is not set");
    const std::optional<std::string> arn = environment_.Get("AWS_ROLE_ARN");
    if (!arn) return Broken("AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN");
    Result<AwsProfile> settings = LoadAwsProfile(environment_, "");
    if (!settings) return Broken(std::move(settings.error().message));
    const RoleWish role{.arn = *arn,
                        .session_name = environment_.Get("AWS_ROLE_SESSION_NAME").value_or(""),
                        .external_id = {},
                        .duration_seconds = {},
                        .provider = fmt::format("web identity, role {}", *arn)};
    return AssumeRoleWithWebIdentity(StsPlaceOf(environment_, *settings, ca_bundle_), role, *token,
                                     std::move(stop));
  }

 private:
  AwsEnvironment environment_;
  std::string ca_bundle_;
};

class ContainerEndpoint final : public CredentialProvider {
 public:
  ContainerEndpoint(AwsEnvironment environment, std::string ca_bundle)
      : environment_(std::move(environment)), ca_bundle_(std::move(ca_bundle)) {}
  std::string_view name() const override { return "container endpoint"; }

  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override {
    if (!profile.empty()) return Absent(kNamesProfile);
    return AskContainerEndpoint(environment_, ca_bundle_, std::move(stop));
  }

 private:
  AwsEnvironment environment_;
  std::string ca_bundle_;
};

class InstanceRole final : public CredentialProvider {
 public:
  explicit InstanceRole(AwsEnvironment environment) : metadata_(std::move(environment)) {}
  std::string_view name() const override { return "instance metadata"; }

  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override {
    if (!profile.empty()) return Absent(kNamesProfile);
    return metadata_.Credentials(std::move(stop));
  }

 private:
  InstanceMetadata metadata_;
};

}  // namespace

CredentialChain DefaultCredentialChain(const AwsEnvironment& environment,
                                       const std::string& ca_bundle) {
  const std::string own = CaBundleOf(ca_bundle, environment);
  CredentialChain::Providers providers;
  providers.push_back(std::make_unique<EnvironmentCredentials>(environment));
  providers.push_back(std::make_unique<ProfileCredentials>(environment, ca_bundle));
  providers.push_back(std::make_unique<WebIdentity>(environment, own));
  providers.push_back(std::make_unique<ContainerEndpoint>(environment, own));
  providers.push_back(std::make_unique<InstanceRole>(environment));
  return CredentialChain(std::move(providers));
}

}  // namespace forebay
