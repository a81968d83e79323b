#include "common/s3/credentials.h"

#include <fmt/format.h>

#include <algorithm>

namespace forebay {
namespace {

// Keys and tokens become HTTP headers: a control character or blank in one would make two of it.
bool FitsHeader(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

CredentialAnswer Checked(S3Credentials credentials) {
  if (credentials.key_id.empty() || credentials.secret_key.empty()) {
    return Broken("what came from there lacks the key id or the secret key");
  }
  if (!FitsHeader(credentials.key_id) || !FitsHeader(credentials.secret_key.Reveal()) ||
      !FitsHeader(credentials.session_token.Reveal())) {
    return Broken("the keys there hold blanks or control characters");
  }
  return credentials;
}

CredentialAnswer EnvironmentCredentials::Load(const std::string& profile,
                                              std::stop_token /*stop*/) const {
  if (!profile.empty()) return Absent("not asked, because the link names a profile");
  const std::optional<std::string> key_id = environment_.Get("AWS_ACCESS_KEY_ID");
  std::optional<std::string> secret = environment_.Get("AWS_SECRET_ACCESS_KEY");
  if (!key_id && !secret) return Absent("AWS_ACCESS_KEY_ID is not set");
  if (!key_id || !secret) {
    return Broken(fmt::format("{} is set without {}",
                              key_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                              key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
  }
  return Checked(
      S3Credentials{.key_id = *key_id,
                    .secret_key = Secret(*std::move(secret)),
                    .session_token = Secret(environment_.Get("AWS_SESSION_TOKEN").value_or("")),
                    .provider = "the environment"});
}

Result<S3Credentials> CredentialChain::Load(const std::string& profile,
                                            std::stop_token stop) const {
  std::string tried;
  for (const std::unique_ptr<CredentialProvider>& provider : providers_) {
    CredentialAnswer answer = provider->Load(profile, stop);
    if (answer) return *std::move(answer);
    const NoCredentials& none = answer.error();
    switch (none.kind) {
      case NoCredentials::Kind::kBroken:
        return Fail(Code::kDenied, fmt::format("the S3 credentials of the {} cannot be used: {}",
                                               provider->name(), none.why));
      case NoCredentials::Kind::kAway:
        return Fail(Code::kUnavailable,
                    fmt::format("the S3 credentials of the {} cannot be had: {}", provider->name(),
                                none.why));
      case NoCredentials::Kind::kAbsent:
        break;
    }
    if (!tried.empty()) tried += "; ";
    tried += fmt::format("{}: {}", provider->name(), none.why);
  }
  if (!profile.empty()) {
    return Fail(Code::kDenied,
                fmt::format("no S3 credentials found for profile '{}'; tried {}; give the profile "
                            "keys in the AWS files of this program's user (docs/S3.md)",
                            profile, tried));
  }
  return Fail(Code::kDenied,
              fmt::format("no S3 credentials found; tried {}; set AWS_ACCESS_KEY_ID and "
                          "AWS_SECRET_ACCESS_KEY of this program, or one of the other places that "
                          "docs/S3.md names, or link a public bucket with --no-sign-request",
                          tried));
}

std::string CredentialChain::Stamp() const {
  std::string stamp;
  for (const std::unique_ptr<CredentialProvider>& provider : providers_) {
    stamp.append(provider->Stamp()).push_back('\n');
  }
  return stamp;
}

}  // namespace forebay
