#include "common/s3/auth/profile_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/s3/auth/container_credentials.h"
#include "common/s3/auth/credential_process.h"
#include "common/s3/auth/sts.h"

namespace forebay {
namespace {

// Longer chains of roles are mistakes.
constexpr std::size_t kMaxTrail = 8;
// The AWS SDK for Go's bound.
constexpr std::chrono::minutes kProcessPatience{1};
constexpr std::array<std::string_view, 2> kSignOn = {"sso_session", "sso_start_url"};

bool HasKeys(const AwsProfile& profile) {
  return profile.Get("aws_access_key_id").has_value() ||
         profile.Get("aws_secret_access_key").has_value();
}

CredentialAnswer KeysOf(const AwsProfile& profile) {
  const std::optional<std::string> key_id = profile.Get("aws_access_key_id");
  std::optional<std::string> secret = profile.Get("aws_secret_access_key");
  if (!key_id || !secret) {
    return Broken(
        fmt::format("profile '{}' in {} has only one of aws_access_key_id and "
                    "aws_secret_access_key",
                    profile.name, profile.looked_at));
  }
  return Checked(
      S3Credentials{.key_id = *key_id,
                    .secret_key = Secret(*std::move(secret)),
                    .session_token = Secret(profile.Get("aws_session_token").value_or("")),
                    .provider = fmt::format("profile '{}'", profile.name)});
}

RoleWish RoleOf(const AwsProfile& profile) {
  const std::string arn = profile.Get("role_arn").value_or("");
  return {.arn = arn,
          .session_name = profile.Get("role_session_name").value_or(""),
          .external_id = profile.Get("external_id").value_or(""),
          .duration_seconds = profile.Get("duration_seconds").value_or(""),
          .provider = fmt::format("role {} of profile '{}'", arn, profile.name)};
}

}  // namespace

CredentialAnswer ProfileCredentials::Load(const std::string& profile, std::stop_token stop) const {
  return OfProfile(profile, {}, std::move(stop));
}

CredentialAnswer ProfileCredentials::OfProfile(const std::string& name, const Trail& trail,
                                               std::stop_token stop) const {
  Result<AwsProfile> profile = LoadAwsProfile(environment_, name);
  if (!profile) return Broken(std::move(profile.error().message));
  if (!profile->found) {
    if (!trail.empty()) {
      return Broken(
          fmt::format("profile '{}' names source_profile '{}', which is not there: looked at {}",
                      trail.back(), name, profile->looked_at));
    }
    // What comes next in the chain would be another identity than the one that was asked for. AWS's
    // own tools end here, too.
    if (name.empty() && environment_.Get("AWS_PROFILE")) {
      return Broken(fmt::format(
          "AWS_PROFILE names profile '{}', which is not there: looked at {}; correct the name, or "
          "unset AWS_PROFILE to take what else there is",
          profile->name, profile->looked_at));
    }
    return Absent(std::move(profile->looked_at));
  }
  // A role whose source is its own profile takes that profile's keys.
  const bool own_source = !trail.empty() && trail.back() == profile->name;
  if (!own_source && std::ranges::find(trail, profile->name) != trail.end()) {
    return Broken(fmt::format("the source_profile of '{}' leads back to it", profile->name));
  }
  if (profile->Get("role_arn") && !own_source) return OfRole(*profile, trail, std::move(stop));
  if (HasKeys(*profile)) return KeysOf(*profile);
  if (const std::optional<std::string> command = profile->Get("credential_process")) {
    return RunCredentialProcess(*command,
                                fmt::format("credential_process of profile '{}'", profile->name),
                                environment_, kProcessPatience, std::move(stop));
  }
  const auto* sign_on = std::ranges::find_if(
      kSignOn, [&](std::string_view key) { return profile->Get(key).has_value(); });
  if (sign_on != kSignOn.end()) {
    return Broken(
        fmt::format("profile '{}' has {}, and single sign-on needs a person: give it "
                    "credential_process = aws configure export-credentials --profile {}",
                    profile->name, *sign_on, profile->name));
  }
  std::string why = fmt::format(
      "profile '{}' in {} has no aws_access_key_id, role_arn or "
      "credential_process",
      profile->name, profile->looked_at);
  return trail.empty() ? Absent(std::move(why)) : Broken(std::move(why));
}

CredentialAnswer ProfileCredentials::OfRole(const AwsProfile& profile, Trail trail,
                                            std::stop_token stop) const {
  if (profile.Get("mfa_serial")) {
    return Broken(
        fmt::format("profile '{}' has mfa_serial, and its codes need a person", profile.name));
  }
  if (trail.size() >= kMaxTrail) {
    return Broken(fmt::format("the roles of profile '{}' come from more than {} others",
                              trail.front(), kMaxTrail));
  }
  // As AWS's own tools: that of the profile which was asked for, not of those that it leads to.
  const std::string& asked_for = trail.empty() ? profile.name : trail.front();
  const StsPlace place =
      StsPlaceOf(environment_, profile, CaBundleOf(ca_bundle_, environment_, asked_for));
  if (const std::optional<std::string> token = profile.Get("web_identity_token_file")) {
    return AssumeRoleWithWebIdentity(place, RoleOf(profile), *token, std::move(stop));
  }
  CredentialAnswer source = SourceOf(profile, std::move(trail), stop);
  if (!source) return source;
  return AssumeRole(place, RoleOf(profile), *source, std::move(stop));
}

CredentialAnswer ProfileCredentials::SourceOf(const AwsProfile& profile, Trail trail,
                                              std::stop_token stop) const {
  const std::optional<std::string> source = profile.Get("source_profile");
  const std::optional<std::string> place = profile.Get("credential_source");
  if (source.has_value() == place.has_value()) {
    return Broken(
        fmt::format("profile '{}' has a role_arn and {} source_profile {} "
                    "credential_source: one of the two says who asks for the role",
                    profile.name, source ? "both" : "neither", source ? "and" : "nor"));
  }
  if (source) {
    trail.push_back(profile.name);
    return OfProfile(*source, trail, std::move(stop));
  }
  CredentialAnswer answer;
  if (*place == "Environment") {
    answer = EnvironmentCredentials(environment_).Load("", std::move(stop));
  } else if (*place == "EcsContainer") {
    answer =
        AskContainerEndpoint(environment_, CaBundleOf(ca_bundle_, environment_), std::move(stop));
  } else if (*place == "Ec2InstanceMetadata") {
    answer = metadata_.Credentials(std::move(stop));
  } else {
    answer = Broken(
        fmt::format("'{}' is none of Environment, EcsContainer, Ec2InstanceMetadata", *place));
  }
  if (answer || answer.error().kind != NoCredentials::Kind::kAbsent) return answer;
  return Broken(fmt::format("the credential_source {} of profile '{}' has none: {}", *place,
                            profile.name, answer.error().why));
}

}  // namespace forebay
