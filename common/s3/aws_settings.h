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

 private:
  Variables variables_;
};

/// One profile of the shared AWS files, as described in "Shared config and credentials files" of
/// the AWS SDKs and Tools Reference Guide. What both files set, the credentials file decides.
struct AwsProfile {
  std::string name;
  bool found = false;     ///< Some file has a section for it.
  std::string looked_at;  ///< For messages: the two files, and what is wrong with each.
  /// Settings by lower-case key. A nested setting is "outer.inner"; the S3 endpoint of the
  /// profile's `services` section is "services.s3.endpoint_url".
  std::map<std::string, std::string, std::less<>> settings;

  std::optional<std::string> Get(std::string_view key) const;
};

/// Reads the profile `name`; "" means AWS_PROFILE, else "default". The files are
/// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, else ~/.aws/credentials and ~/.aws/config. A
/// missing file or profile is no error (`found` is false); kInvalid when a file cannot be read or
/// understood: the message names file and line and never what the line says. Blocks on the disk.
Result<AwsProfile> LoadAwsProfile(const AwsEnvironment& environment, std::string_view name);

}  // namespace forebay
