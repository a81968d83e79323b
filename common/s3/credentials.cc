#include "common/s3/credentials.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>

namespace forebay {
namespace {

// Keys and tokens become HTTP headers: a control character or blank in one would make two of it.
bool FitsHeader(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::expected<S3Credentials, NoCredentials> Checked(S3Credentials credentials) {
  if (FitsHeader(credentials.key_id) && FitsHeader(credentials.secret_key.Reveal()) &&
      FitsHeader(credentials.session_token.Reveal())) {
    return credentials;
  }
  return std::unexpected(
      NoCredentials{.why = "the keys there hold blanks or control characters", .broken = true});
}

// Ways for a profile to get credentials that no provider of the chain reads.
constexpr std::array<std::string_view, 5> kOtherSources = {
    "role_arn", "credential_process", "sso_session", "sso_start_url", "web_identity_token_file"};

}  // namespace

Secret::~Secret() { OPENSSL_cleanse(text_.data(), text_.size()); }

std::expected<S3Credentials, NoCredentials> EnvironmentCredentials::Load(
    const std::string& profile) {
  if (!profile.empty()) {
    return std::unexpected(NoCredentials{.why = "not asked, because the link names a profile"});
  }
  const std::optional<std::string> key_id = environment_.Get("AWS_ACCESS_KEY_ID");
  std::optional<std::string> secret = environment_.Get("AWS_SECRET_ACCESS_KEY");
  if (!key_id && !secret) {
    return std::unexpected(NoCredentials{.why = "AWS_ACCESS_KEY_ID is not set"});
  }
  if (!key_id || !secret) {
    return std::unexpected(
        NoCredentials{.why = fmt::format("{} is set without {}",
                                         key_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                         key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"),
                      .broken = true});
  }
  return Checked(
      S3Credentials{.key_id = *key_id,
                    .secret_key = Secret(*std::move(secret)),
                    .session_token = Secret(environment_.Get("AWS_SESSION_TOKEN").value_or("")),
                    .provider = "the environment"});
}

std::expected<S3Credentials, NoCredentials> SharedFileCredentials::Load(
    const std::string& profile) {
  Result<AwsProfile> loaded = LoadAwsProfile(environment_, profile);
  if (!loaded) {
    return std::unexpected(NoCredentials{.why = std::move(loaded.error().message), .broken = true});
  }
  if (!loaded->found) return std::unexpected(NoCredentials{.why = std::move(loaded->looked_at)});
  const std::optional<std::string> key_id = loaded->Get("aws_access_key_id");
  std::optional<std::string> secret = loaded->Get("aws_secret_access_key");
  if (!key_id && !secret) {
    std::string why =
        fmt::format("profile '{}' in {} has no aws_access_key_id", loaded->name, loaded->looked_at);
    const auto* other = std::ranges::find_if(
        kOtherSources, [&](std::string_view key) { return loaded->Get(key).has_value(); });
    if (other != kOtherSources.end()) why += fmt::format(" ({} is not read)", *other);
    return std::unexpected(NoCredentials{.why = std::move(why)});
  }
  if (!key_id || !secret) {
    return std::unexpected(
        NoCredentials{.why = fmt::format("profile '{}' in {} has only one of aws_access_key_id "
                                         "and aws_secret_access_key",
                                         loaded->name, loaded->looked_at),
                      .broken = true});
  }
  return Checked(
      S3Credentials{.key_id = *key_id,
                    .secret_key = Secret(*std::move(secret)),
                    .session_token = Secret(loaded->Get("aws_session_token").value_or("")),
                    .provider = fmt::format("profile '{}'", loaded->name)});
}

CredentialChain CredentialChain::Default(const AwsEnvironment& environment) {
  // The order of the AWS SDKs. A further provider (web identity, container, instance metadata) is
  // one more line behind these two.
  Providers providers;
  providers.push_back(std::make_unique<EnvironmentCredentials>(environment));
  providers.push_back(std::make_unique<SharedFileCredentials>(environment));
  return CredentialChain(std::move(providers));
}

Result<S3Credentials> CredentialChain::Load(const std::string& profile) {
  std::string tried;
  for (const std::unique_ptr<CredentialProvider>& provider : providers_) {
    std::expected<S3Credentials, NoCredentials> answer = provider->Load(profile);
    if (answer) return *std::move(answer);
    if (answer.error().broken) {
      return Fail(Code::kDenied, fmt::format("the S3 credentials in the {} cannot be used: {}",
                                             provider->name(), answer.error().why));
    }
    if (!tried.empty()) tried += "; ";
    tried += fmt::format("{}: {}", provider->name(), answer.error().why);
  }
  return Fail(Code::kDenied,
              fmt::format("no S3 credentials found{}; tried {}",
                          profile.empty() ? "" : fmt::format(" for profile '{}'", profile), tried));
}

}  // namespace forebay
