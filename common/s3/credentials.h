#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/secret.h"
#include "common/s3/aws_settings.h"

namespace forebay {

struct S3Credentials {
  std::string key_id;  ///< Not a secret: messages name it.
  Secret secret_key;
  Secret session_token;  ///< Empty for long-lived keys.
  std::string provider;  ///< Where they came from, for messages.
  /// When S3 stops accepting them, by this machine's clock; nothing for long-lived keys.
  std::optional<std::chrono::sys_seconds> expires = std::nullopt;
  /// Reading them again costs no more than reading a file: no request, no process.
  bool local = true;

  /// The same keys, wherever they came from: asking S3 again with them changes nothing.
  bool SameKeys(const S3Credentials& other) const {
    return key_id == other.key_id && secret_key == other.secret_key &&
           session_token == other.session_token;
  }
};

/// Why a provider gave nothing.
struct NoCredentials {
  enum class Kind : std::uint8_t {
    kAbsent,  ///< Nobody set it up: the next provider is asked.
    kBroken,  ///< Somebody set it up, and wrongly: asking the next one would hide that.
    kAway,    ///< It is set up and does not answer now: a later look may find some.
  };
  Kind kind = Kind::kAbsent;
  std::string why;  ///< Short, for a list: "AWS_ACCESS_KEY_ID is not set".
};

using CredentialAnswer = std::expected<S3Credentials, NoCredentials>;

inline std::unexpected<NoCredentials> Absent(std::string why) {
  return std::unexpected(NoCredentials{NoCredentials::Kind::kAbsent, std::move(why)});
}
inline std::unexpected<NoCredentials> Broken(std::string why) {
  return std::unexpected(NoCredentials{NoCredentials::Kind::kBroken, std::move(why)});
}
inline std::unexpected<NoCredentials> Away(std::string why) {
  return std::unexpected(NoCredentials{NoCredentials::Kind::kAway, std::move(why)});
}

/// Refuses keys that would not fit into a header, or that are half there.
CredentialAnswer Checked(S3Credentials credentials);

/// One place that credentials come from. Thread-safe.
class CredentialProvider {
 public:
  virtual ~CredentialProvider() = default;
  virtual std::string_view name() const = 0;
  /// Looks afresh; may block, but not for long once `stop` is requested. `profile` is the one that
  /// a link names, "" = the default chain.
  virtual CredentialAnswer Load(const std::string& profile, std::stop_token stop) const = 0;
  /// Changes when the local files that Load begins with do. Costs a stat.
  virtual std::string Stamp() const { return {}; }
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. Gives nothing to a link that names
/// a profile: that asks for the profile's keys and no others.
class EnvironmentCredentials final : public CredentialProvider {
 public:
  explicit EnvironmentCredentials(AwsEnvironment environment)
      : environment_(std::move(environment)) {}
  std::string_view name() const override { return "environment"; }
  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override;

 private:
  AwsEnvironment environment_;
};

/// The providers in the order in which they are asked: the first that has credentials wins.
/// DefaultCredentialChain (common/s3/auth) makes the standard one.
class CredentialChain {
 public:
  using Providers = std::vector<std::unique_ptr<CredentialProvider>>;
  explicit CredentialChain(Providers providers) : providers_(std::move(providers)) {}

  /// kDenied when no provider has any (the message lists what each said) or one is set up wrongly;
  /// kUnavailable when one does not answer now. May block. Thread-safe.
  Result<S3Credentials> Load(const std::string& profile, std::stop_token stop = {}) const;

  /// Changes when a provider's files do.
  std::string Stamp() const;

 private:
  Providers providers_;
};

}  // namespace forebay
