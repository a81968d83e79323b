#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/s3/aws_settings.h"

namespace forebay {

/// Text that must not be seen: it has no stream operator and no formatter, so that printing or
/// logging it does not compile, and its memory is wiped when it goes.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  Secret(Secret&&) = default;
  Secret& operator=(Secret&&) = default;
  ~Secret();

  /// For the signer and the session-token header alone.
  std::string_view Reveal() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const Secret&) const = default;

  template <typename Stream>
  friend Stream& operator<<(Stream&, const Secret&) = delete;

 private:
  std::string text_;
};

struct S3Credentials {
  std::string key_id;  ///< Not a secret: messages name it.
  Secret secret_key;
  Secret session_token;  ///< Empty for long-lived keys.
  std::string provider;  ///< Where they came from, for messages.

  /// The same keys, wherever they came from: asking S3 again with them changes nothing.
  bool SameKeys(const S3Credentials& other) const {
    return key_id == other.key_id && secret_key == other.secret_key &&
           session_token == other.session_token;
  }
};

/// Why a provider gave nothing.
struct NoCredentials {
  std::string why;      ///< Short, for a list: "AWS_ACCESS_KEY_ID is not set".
  bool broken = false;  ///< Somebody set it up, and wrongly: asking the next one would hide that.
};

/// One place that credentials come from.
class CredentialProvider {
 public:
  virtual ~CredentialProvider() = default;
  virtual std::string_view name() const = 0;
  /// Looks afresh; may block. `profile` is the one that a link names, "" = the default chain. One
  /// caller at a time.
  virtual std::expected<S3Credentials, NoCredentials> Load(const std::string& profile) = 0;
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. Gives nothing to a link that names
/// a profile: that asks for the profile's keys and no others.
class EnvironmentCredentials final : public CredentialProvider {
 public:
  explicit EnvironmentCredentials(AwsEnvironment environment)
      : environment_(std::move(environment)) {}
  std::string_view name() const override { return "environment"; }
  std::expected<S3Credentials, NoCredentials> Load(const std::string& profile) override;

 private:
  AwsEnvironment environment_;
};

/// The profile's keys in the shared credentials and config files.
class SharedFileCredentials final : public CredentialProvider {
 public:
  explicit SharedFileCredentials(AwsEnvironment environment)
      : environment_(std::move(environment)) {}
  std::string_view name() const override { return "shared files"; }
  std::expected<S3Credentials, NoCredentials> Load(const std::string& profile) override;

 private:
  AwsEnvironment environment_;
};

/// The providers in the order in which they are asked: the first that has credentials wins.
class CredentialChain {
 public:
  using Providers = std::vector<std::unique_ptr<CredentialProvider>>;
  explicit CredentialChain(Providers providers) : providers_(std::move(providers)) {}

  /// The standard AWS order.
  static CredentialChain Default(const AwsEnvironment& environment);

  /// kDenied when no provider has any (the message lists what each said) or one is set up wrongly.
  /// May block. One caller at a time.
  Result<S3Credentials> Load(const std::string& profile);

 private:
  Providers providers_;
};

}  // namespace forebay
