#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// The environment variables that S3 settings come from: a copy, so that nothing below reads the
/// process's own while another thread changes it, and tests give their own.
class AwsEnvironment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  explicit AwsEnvironment(Variables variables) : variables_(std::move(variables)) {}
  static AwsEnvironment OfProcess();

  /// Empty counts as not set, as in the AWS SDKs.
  std::optional<std::string> Get(std::string_view name) const;
  /// "true", in any case, as the AWS SDKs read switches.
  bool IsTrue(std::string_view name) const;
  const Variables& variables() const { return variables_; }

 private:
  Variables variables_;
};

/// One profile of the shared AWS files, as described in "Shared config and credentials files" of
/// the AWS SDKs and Tools Reference Guide. What both files set, the credentials file decides.
struct AwsProfile {
  std::string name;
  bool found = false;     ///< Some file has a section for it.
  std::string looked_at;  ///< For messages: the two files, and what is wrong with each.
  /// Settings by lower-case key. A nested setting is "outer.inner"; an endpoint of the
  /// profile's `services` section is "services.s3.endpoint_url".
  std::map<std::string, std::string, std::less<>> settings;

  std::optional<std::string> Get(std::string_view key) const;
};

/// Reads the profile `name`; "" means AWS_PROFILE, else "default". The files are
/// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, else ~/.aws/credentials and ~/.aws/config. A
/// missing file or profile is no error (`found` is false); kInvalid when a file cannot be read or
/// understood: the message names file and line and never what the line says. Blocks on the disk.
Result<AwsProfile> LoadAwsProfile(const AwsEnvironment& environment, std::string_view name);

/// Changes when one of the two files is written or replaced. Blocks on the disk.
std::string SharedFilesStamp(const AwsEnvironment& environment);

/// AWS_REGION, AWS_DEFAULT_REGION, the profile's.
std::optional<std::string> ConfiguredRegion(const AwsEnvironment& environment,
                                            const AwsProfile& profile);

/// A switch: the variable where it is set, be it to "false", else the profile's `key`. "true" in
/// any case switches on, all else off.
bool ConfiguredSwitch(const AwsEnvironment& environment, std::string_view variable,
                      const AwsProfile& profile, std::string_view key);

/// The endpoint of a service ("s3", "sts") as it is set: AWS_ENDPOINT_URL_<SERVICE>,
/// AWS_ENDPOINT_URL, the profile's service section, the profile's endpoint_url. Nothing where
/// AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, else the profile's ignore_configured_endpoint_urls, is
/// true.
std::optional<std::string> ConfiguredEndpoint(const AwsEnvironment& environment,
                                              const AwsProfile& profile, std::string_view service);

/// The PEM file that vouches for servers: `given`, else AWS_CA_BUNDLE, else the ca_bundle of
/// `profile`, else that of the profile of AWS_PROFILE or "default", else "" for the system's.
/// Damaged files count as none: whoever needs them says so. Blocks on the disk.
std::string CaBundleOf(const std::string& given, const AwsEnvironment& environment,
                       std::string_view profile = {});

}  // namespace forebay
